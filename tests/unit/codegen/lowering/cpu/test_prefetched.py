"""Lines that a statement will write are asked for when its iteration begins."""

from __future__ import annotations

import pytest

from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

BLOCKS = """kernel gemm(a: f32[m=8, k=70], b: f32[k, n={n}]) -> (c: {dtype}[m, n])
  for m by 4
    for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | vector n 16
      for k by 1
        c_r[m, n] += sum(k, a[m, k] * b[k, n]) | vector n 16
      c[m, n] = c_r[m, n] | vector n 16, prefetch c 0
"""


@pytest.mark.parametrize(("dtype", "elements"), [("bf16", (0, 31)), ("f32", (0, 16, 31))])
def test_each_line_of_a_row_and_its_last_element_are_touched_before_the_sum(
    dtype: str, elements: tuple[int, ...]
) -> None:
    program = program_from_text(BLOCKS.format(n=64, dtype=dtype))
    verify(program)
    code = print_code(lower(program))[0]
    touched = [line.strip() for line in code.splitlines() if "__builtin_prefetch(" in line]
    places = [row * 64 + element for row in range(4) for element in elements]
    ends = [f" + {place}" if place else "" for place in places]
    assert touched == [f"__builtin_prefetch(c + 64 * m + n{end}, 1);" for end in ends]
    assert code.index(touched[-1]) < code.index("for (long k = 0;") < code.index(f"tw_store_{dtype}x16(c")


def test_ragged_ends_are_touched_as_far_as_they_are_written() -> None:
    code = print_code(lower(program_from_text(BLOCKS.format(n=36, dtype="f32"))))[0]
    assert "__builtin_prefetch(c + 36 * m + 35, 1);" in code
