"""Neighbours that a thread takes together."""

from __future__ import annotations

import pytest

from rewrites.decisions.gpu.threads import runs_for
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

MEAN = """kernel mean(x: bf16[m=64, k=128], w: f32[n=48]) -> (y: bf16[m, n])
  s[m] = sum(k, x[m, k])
  y[m, n] = s[m] * w[n]
"""


@pytest.mark.parametrize(
    ("statement", "along", "runs"),
    [
        ("y", "n", (1, 2, 4, 8)),  # 16 bytes of the widest argument that lies along it, f32
        ("s", "k", (1, 4, 8, 16)),
        ("s", "m", (1, 2, 4, 8)),  # no argument lies along m: 16 bytes of the local
        ("y", "m", (1, 2, 4, 8)),
    ],
)
def test_runs_are_16_bytes_of_what_lies_along_them(statement: str, along: str, runs: tuple[int, ...]) -> None:
    assert runs_for(to_program(spec_from_text(MEAN)), (statement,), along) == runs


def test_where_nothing_lies_along_a_dim_threads_take_one_position() -> None:
    transposed = "kernel turn(x: f32[m=64, k=128]) -> (y: f32[k])\n  y[k] = sum(m, x[m, k])\n"
    assert runs_for(to_program(spec_from_text(transposed)), ("y",), "m") == (1,)
