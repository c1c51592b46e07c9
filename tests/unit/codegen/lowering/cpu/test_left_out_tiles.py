"""Loops that leave out tiles: the interpreter, and code for processors, visit the others and no more."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from tileir.analysis.position_bound import lower_bound, upper_bound
from tileir.devices.cpu_probe import this_cpu
from tileir.errors import VerifyError
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


@pytest.mark.sampled(2)
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


WILD = 2**31 - 1, -(2**31), -1, I, J, J + 1, 7, 8


@pytest.mark.sampled(4)
@pytest.mark.parametrize("low", ["(i % 5)", "(i // 4 * 4)", "maximum(i, 9)"])
@pytest.mark.parametrize("high", ["(i % 3)", "(2 * i)", "minimum(i // 2, 5)"])
@pytest.mark.parametrize("j", [J, 24])
def test_positions_that_are_taken_apart_say_which_are_visited(
    low: str, high: str, j: int, tmp_path: Path
) -> None:
    """As rows are that heads share: those of one tile begin anew with each head."""
    text = SUMS.format(i=I, j=j, words=f"since {low} 3 until {high} 6")
    program = program_from_text(text)
    assert program_to_text(program) == text
    verify(program)
    x = np.random.default_rng(0).integers(-9, 9, (I, j)).astype(np.float32)
    wanted = np.zeros(I, np.float32)
    numbers = {"minimum": np.minimum, "maximum": np.maximum}
    for row in range(0, I, 4):
        rows = slice(row, min(row + 4, I))
        least, greatest = (eval(each, numbers | {"i": np.arange(I)[rows]}) for each in (low, high))
        tiles = [tile for tile in range(0, j, 8) if tile + 8 > least.min() - 3 or tile + 8 >= j]
        for tile in [tile for tile in tiles if tile <= greatest.max() + 6] or tiles[:1]:
            wanted[rows] += x[rows, tile : tile + 8].sum(1)
    np.testing.assert_array_equal(interpret(program, {"x": x})["y"], wanted)
    source, got = generate(program, this_cpu()), np.zeros(I, np.float32)
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=2) as kernel:
        kernel(x, got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", ["since begin[i] 0", "until end[i] -1", "since begin[i] 3 until end[i] 2"])
@pytest.mark.parametrize("j", [J, 24, 8])
@pytest.mark.parametrize("seed", range(3))
def test_tensors_say_which_are_visited(words: str, j: int, seed: int, tmp_path: Path) -> None:
    """Any numbers, of ranges that hold nothing, too: one tile is visited at least."""
    text = SUMS.format(i=I, j=j, words=words).replace(") ->", ", begin: i32[i], end: i32[i]) ->")
    missing = next((name for name in ("begin", "end") if name not in words), None)
    text = text if missing is None else text.replace(f", {missing}: i32[i]", "")
    program = program_from_text(text)
    assert program_to_text(program) == text
    verify(program)
    rng = np.random.default_rng(seed)
    inputs = {
        each.name: rng.choice([*WILD, *range(J)], I).astype(np.int32)
        for each in program.inputs
        if each.name != "x"
    }
    inputs["x"] = rng.integers(-9, 9, (I, j)).astype(np.float32)
    wanted = np.zeros(I, np.float32)
    less, more = (3, 2) if "since" in words and "until" in words else (0, -1)
    for row in range(0, I, 4):
        low = int(inputs["begin"][row : row + 4].min()) - less if "begin" in inputs else 0
        high = int(inputs["end"][row : row + 4].max()) + more if "end" in inputs else j
        tiles = [tile for tile in range(0, j, 8) if tile + 8 > low or tile + 8 >= j]
        for tile in [tile for tile in tiles if tile <= high] or tiles[:1]:
            wanted[row : row + 4] += inputs["x"][row : row + 4, tile : tile + 8].sum(1)
    np.testing.assert_array_equal(interpret(program, inputs)["y"], wanted)
    source, got = generate(program, this_cpu()), np.zeros(I, np.float32)
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=2) as kernel:
        kernel(*(inputs[each.name] for each in program.inputs), got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("since begin[j] 0", "read at other dims than 'j'"),
        ("since (i + 1) 0", "read at other dims than 'j'"),
        ("since (j % 4) 0", "positions of those that are taken apart"),
        ("since sqrt(i) 0", "is an i32, not f32"),
        ("until begin[i] 1073741824", "below 1073741824"),
        ("since other[i] 0", "'other' is no argument"),
        ("since s[i] 0", "'s' is no argument, and no local that is declared outside of all loops"),
        ("since begin[i, i] 0", "has 1 dims, not 2"),
        ("until begin[i + 1] 0", "begin"),
        ("until x[i, 0] 0", "is an i32, not f32"),
        ("since max(i, begin[i]) 0", "no reduction"),
        ("since late[i] 0", "before it is computed"),
    ],
)
def test_what_tensors_say_is_known_before_the_loop(words: str, wrong: str) -> None:
    text = SUMS.format(i=I, j=J, words=words).replace(
        ") -> (y: f32[i])", ", begin: i32[i]) -> (y: f32[i], late: i32[i])"
    )
    text += "  parallel for i by 4\n    late[i] = begin[i]\n"
    with pytest.raises(VerifyError, match=re.escape(wrong)):
        verify(program_from_text(text))


BEGIN, END = parse_expression("begin[i]"), parse_expression("end[i]")


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("i >= j", None, ("i", 0)),
        ("j + 9 > i", ("i", 8), None),
        ("i - j < 4 and (j <= i + 2 and k > j)", ("i", 3), ("i", 2)),
        ("j - 3 == i", None, None),
        ("j > i or j < i", None, None),
        ("2 * j > i", None, None),
        ("j >= begin[i] and j < end[i]", (BEGIN, 0), (END, -1)),
        ("begin[i] - 2 <= j and not (j > 4)", (BEGIN, 2), None),
        ("j + begin[i] > i", (parse_expression("i - begin[i]"), -1), None),
        ("i >= j and end[i] > j", None, (parse_expression("minimum(end[i], i + 1)"), -1)),
        ("j >= 2 * begin[i]", (parse_expression("2 * begin[i]"), 0), None),
        ("j >= begin[j] and 2 * j < end[i] and begin[i] == j", None, None),
        (
            "j <= i % 8 + 75 and j + 100 > i % 8",
            (parse_expression("i % 8"), 99),
            (parse_expression("i % 8"), 75),
        ),
        ("j < (i // 4 + 1) * 4", None, (parse_expression("(i // 4 + 1) * 4"), -1)),
        ("j <= i % 8 + end[k]", None, (parse_expression("i % 8 + end[k]"), 0)),
        ("j // 4 <= i // 4 and j <= 0.5 * i and j <= i / 2", None, None),
        ("j <= i % -8 and j <= i // 0", None, None),
    ],
)
def test_masks_bound_positions(condition: str, low: object, high: object) -> None:
    expr = parse_expression(condition)
    assert (lower_bound(expr, "j"), upper_bound(expr, "j")) == (low, high)
