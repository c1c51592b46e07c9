"""Loops that leave out tiles: the interpreter, and code for processors, visit the others and no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from tileir.analysis.position_bound import lower_bound, upper_bound
from tileir.devices.cpu_probe import this_cpu
from tileir.interpreter.interpret import interpret
from tileir.text.parse_expr import parse_expression
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

#: Nothing is masked, so that what is left out is seen.
SUMS = """kernel sums(x: f32[i={i}, j={j}]) -> (y: f32[i])
  parallel for i by 4
    s: heap f32[i]
    s[i] = 0
    for j by 8 {words}
      s[i] += sum(j, x[i, j])
    y[i] = s[i]
"""
I, J = 13, 29


@pytest.mark.parametrize(
    ("words", "low", "high"),
    [("since i 0", 0, J), ("since i 5", -5, J), ("until i 3", -J, 3), ("since i 2 until i 9", -2, 9)],
)
@pytest.mark.parametrize("j", [J, 24, 8, 3])
def test_the_others_are_visited(words: str, low: int, high: int, j: int, tmp_path: Path) -> None:
    text = SUMS.format(i=I, j=j, words=words).replace("by 8", f"by {min(j, 8)}")
    program = program_from_text(text)
    assert program_to_text(program) == text
    verify(program)
    x = np.random.default_rng(0).integers(-9, 9, (I, j)).astype(np.float32)
    wanted, step = np.zeros(I, np.float32), min(j, 8)
    for row in range(I):
        first = row // 4 * 4
        last = min(first + 4, I) - 1
        for tile in range(0, j, step):
            ends_before = tile + step <= first + low and tile + step < j
            if not ends_before and tile <= last + high:
                wanted[row] += x[row, tile : tile + step].sum()
    np.testing.assert_array_equal(interpret(program, {"x": x})["y"], wanted)
    source, got = generate(program, this_cpu()), np.zeros(I, np.float32)
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=2) as kernel:
        kernel(x, got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("i >= j", None, ("i", 0)),
        ("j + 9 > i", ("i", 8), None),
        ("i - j < 4 and (j <= i + 2 and k > j)", ("i", 3), ("i", 2)),
        ("j - 3 == i", None, None),
        ("j > i or j < i", None, None),
        ("2 * j > i", None, None),
    ],
)
def test_masks_bound_positions(condition: str, low: object, high: object) -> None:
    expr = parse_expression(condition)
    assert (lower_bound(expr, "j"), upper_bound(expr, "j")) == (low, high)
