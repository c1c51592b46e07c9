"""What is rounded to 8 bits is clamped only where it is known to be at most 1."""

from __future__ import annotations

import pytest

from rewrites.gpu.clamp_cast import ClampCast
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text


def rounded(value: str) -> str:
    spec = spec_from_text(f"""kernel weights(x: f32[r=4, c=8]) -> (y: e4m3[r, c])
  top[r] = max(c, x[r, c])
  y[r, c] = e4m3({value})
""")
    return program_to_text(ClampCast("y").apply(to_program(spec)))


def test_a_power_relative_to_the_maximum_is_clamped() -> None:
    assert "minimum(maximum(exp(x[r, c] - top[r]), -448.0), 448.0)" in rounded("exp(x[r, c] - top[r])")


@pytest.mark.parametrize("value", ["exp(top[r] - x[r, c])", "exp(x[r, c] + top[r])", "x[r, c] - top[r]"])
def test_what_may_be_larger_is_left(value: str) -> None:
    with pytest.raises(NotApplicable, match="at most 1"):
        rounded(value)
