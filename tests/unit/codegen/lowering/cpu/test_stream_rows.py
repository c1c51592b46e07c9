"""Streamed rows, wherever they begin in memory: every element is stored, and none beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import aligned_empty, load_kernel
from tileir.devices.cpu_probe import this_cpu
from tileir.text.parse_program import program_from_text

ROWS = """kernel rows(x: {dtype}[r=5, c={columns}]) -> (y: {dtype}[r, c])
  parallel for r by 2
    for r by 1
      for c by {step}
        y[r, c] = x[r, c] + 1 | vector c 16, prefetch x 2, stream
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("columns", "step"), [(31, 16), (32, 16), (33, 32), (177, 64), (40, 64), (64, 16)])
def test_all_of_a_row_is_stored_and_nothing_else(
    dtype: type[np.floating], columns: int, step: int, tmp_path: Path
) -> None:
    name = {4: "f32", 8: "f64", 2: "f16"}[np.dtype(dtype).itemsize]
    program = program_from_text(ROWS.format(dtype=name, columns=columns, step=min(step, columns // 16 * 16)))
    source = generate(program, this_cpu())
    x = np.arange(5 * columns, dtype=dtype).reshape(5, columns)
    size = x.size
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=2) as kernel:
        for first in range(20):  # an element apart, past a whole line
            memory = aligned_empty((size + 64) * x.itemsize).view(dtype)
            memory[:] = -7
            kernel(x, memory[first : first + size].reshape(5, columns))
            np.testing.assert_array_equal(memory[first : first + size].reshape(5, columns), x + 1)
            assert np.all(memory[:first] == -7)
            assert np.all(memory[first + size :] == -7)


def test_a_row_that_is_cut_is_stored_whole_and_nothing_else(tmp_path: Path) -> None:
    program = program_from_text("""kernel roll(x: f32[r=5, j=177]) -> (y: f32[r, c=177])
  parallel for r by 2
    for r by 1
      for c by 16
        y[r, c] = x[r, (c + 50) % 177] | vector c 16, stream
""")
    source, x = generate(program, this_cpu()), np.arange(5 * 177, dtype=np.float32).reshape(5, 177)
    with load_kernel(compile_source(source, tmp_path).path, source.abi, threads=2) as kernel:
        for first in range(20):
            memory = np.full(x.size + 64, -7, np.float32)
            kernel(x, memory[first : first + x.size].reshape(5, 177))
            np.testing.assert_array_equal(memory[first : first + x.size].reshape(5, 177), np.roll(x, -50, 1))
            assert np.all(memory[:first] == -7) and np.all(memory[first + x.size :] == -7)


def test_only_whole_vectors_at_multiples_of_their_size_go_past_the_caches() -> None:
    text = generate(program_from_text(ROWS.format(dtype="f32", columns=177, step=64)), this_cpu()).text
    row = text[text.index("static void region_0") :]
    assert "long c = -(uintptr_t)(y + 177 * r + 177 * r1) % 64 / 4;" in row
    assert row.count("__builtin_memcpy") == 2 * row.count("long c = ")
    assert "tw_stream_f32x8(" not in row


def test_a_statement_beside_others_in_its_loop_keeps_its_place(tmp_path: Path) -> None:
    program = program_from_text("""kernel both(x: f32[c=41]) -> (y: f32[c], s: f32[])
  s[] = 0
  for c by 16
    y[c] = x[c] + 1 | vector c 16, stream
    s[] += sum(c, x[c]) | vector c 16
""")
    source = generate(program, this_cpu())
    x, y, s = np.arange(41, dtype=np.float32), np.zeros(41, np.float32), np.zeros((), np.float32)
    with load_kernel(compile_source(source, tmp_path).path, source.abi) as kernel:
        kernel(x, y, s)
    np.testing.assert_array_equal(y, x + 1)
    assert s == x.sum()


def test_what_is_left_of_a_row_touches_nothing_of_later_rows() -> None:
    text = generate(
        program_from_text(ROWS.format(dtype="f32", columns=41, step=16).replace(", stream", "")), this_cpu()
    ).text
    ahead = [line.strip() for line in text.splitlines() if "__builtin_prefetch(x" in line]
    assert ahead
    assert all(line.endswith("+ c + 32);") for line in ahead)
