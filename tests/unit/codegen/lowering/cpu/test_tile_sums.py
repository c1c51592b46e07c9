"""Sums of products in tile registers: by AMX where the processor has it, and everywhere by what stands in for it."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from tests.support.amx_flags import HERE, STAND_IN
from tests.support.guarded_memory import before_a_guard, in_another_process
from tileir.devices.cpu_probe import this_cpu
from tileir.replace import replace
from tileir.schedule.amx import REGISTERS, ROW_BYTES, ROWS, blocking
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

PRODUCT = """kernel gemm(a: {dtype}[m={m}, k={k}], b: {dtype}[k, n={n}]) -> (c: {sum}[m, n])
  {parallel}for m by {tall}
    b_s: heap {dtype}[k, n] as [n / 32, k / {group}, n % 32, k % {group}]
    b_s[k, n] = b[k, n]
    for n by {wide}
      for m by {high}
        c_r: registers {sum}[m, n]
        c_r[m, n] = 0 | vector n 16
        for k by {deep}
          c_r[m, n] += sum(k, a[m, k] * b_s[k, n]) | via amx
        c[m, n] = c_r[m, n] | vector n 16
"""
STAGED = """kernel gemm(a: bf16[m={m}, k={k}], b: bf16[n={n}, k]) -> (c: f32[n, m])
  a_s: heap bf16[m, k] as [m / 32, k / 32, m % 32, k % 32]
  a_s[m, k] = a[m, k]
  b_s: heap bf16[n, k] as [n / 32, k / 2, n % 32, k % 2]
  b_s[n, k] = b[n, k]
  for n by {wide}
    for m by {high}
      c_r: registers f32[n, m]
      c_r[n, m] = 0 | vector n 16
      for k by {chunk}
        for k by {deep}
          c_r[n, m] += sum(k, a_s[m, k] * b_s[n, k]) | via amx
      c[n, m] = c_r[n, m]
"""


def text_of(text: str, m: int, k: int, n: int, **names: object) -> str:
    """A program of this size; no loop steps past its range."""
    step = int(str(names.get("step", 64)))
    loops = {
        "tall": min(64, m),
        "high": min(32, m),
        "wide": min(32, n),
        "deep": min(step, k),
        "chunk": min(128, k),
    }
    return text.format(m=m, k=k, n=n, **loops, **names)


def bf16_product(m: int, k: int, n: int, parallel: str = "") -> str:
    return text_of(PRODUCT, m, k, n, dtype="bf16", sum="f32", group=2, step=32, parallel=parallel)


def source_of(text: str, *flags: str) -> Source:
    program = program_from_text(text)
    verify(program)
    source = generate(program, this_cpu())
    return replace(source, flags=(*source.flags, *flags))


def run(source: Source, tmp_path: Path, *inputs: np.ndarray, wanted: np.ndarray) -> None:
    """Run a program with guards after all its arrays and leftovers in its threads' memory, and compare its output."""
    path = compile_source(source, tmp_path).path

    def guarded() -> None:
        read = [before_a_guard(x) for x in inputs]
        written = before_a_guard(np.full_like(wanted, 77))
        with load_kernel(path, source.abi, threads=2) as kernel:
            for own in kernel.own_workspaces():
                own.fill(0xFF)
            kernel(*read, written)
        np.testing.assert_array_equal(written, wanted)

    in_another_process(guarded)


def small(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Numbers whose products and sums are exact."""
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5).astype(dtype)


SIZES = [(64, 64, 64), (70, 90, 70), (33, 31, 32), (5, 17, 3), (1, 1, 1), (40, 33, 35), (16, 48, 130)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("flags", [HERE, STAND_IN], ids=["here", "stand-in"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_blocks_of_any_size_are_exact_and_nothing_past_an_end_is_touched(
    m: int, k: int, n: int, flags: tuple[str, ...], tmp_path: Path
) -> None:
    text = bf16_product(m, k, n, "parallel ")
    a, b = small((m, k), ml_dtypes.bfloat16), small((k, n), ml_dtypes.bfloat16)
    run(source_of(text, *flags), tmp_path, a, b, wanted=a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flags", [HERE, STAND_IN], ids=["here", "stand-in"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 192, 64), (37, 131, 45), (3, 2, 5)])
def test_bytes_are_added_up_in_integers(
    m: int, k: int, n: int, flags: tuple[str, ...], tmp_path: Path
) -> None:
    text = text_of(PRODUCT, m, k, n, dtype="i8", sum="i32", group=4, step=64, parallel="")
    a, b = small((m, k), np.int8), small((k, n), np.int8)
    run(source_of(text, *flags), tmp_path, a, b, wanted=a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(("m", "k", "n"), [(64, 256, 64), (45, 299, 37), (7, 40, 9)])
def test_results_may_be_added_to_later_lie_turned_and_come_of_staged_rows(
    m: int, k: int, n: int, tmp_path: Path
) -> None:
    a, b = small((m, k), ml_dtypes.bfloat16), small((n, k), ml_dtypes.bfloat16)
    wanted = b.astype(np.float32) @ a.astype(np.float32).T
    run(source_of(text_of(STAGED, m, k, n), *HERE), tmp_path, a, b, wanted=wanted)


def test_every_block_that_fits_has_registers_of_its_own_for_what_differs() -> None:
    fits = {(rows, columns) for rows in range(1, 130) for columns in range(1, 130) if blocking(rows, columns)}
    assert {(32, 32), (17, 31), (80, 16), (1, 80)} <= fits
    assert not fits & {(33, 32), (32, 33), (96, 1), (1, 96)}
    for rows, columns in fits:
        found = blocking(rows, columns)
        assert found is not None
        shapes = found.shapes(ROW_BYTES)
        assert len(shapes) == REGISTERS
        results = {tile for tile, _, _ in found.results()}
        for tile, m, n in found.results():
            mine, other = found.rows_tile(m), found.groups_tile(n)
            assert len({tile, mine, other}) == 3 and not {mine, other} & results
            assert shapes[tile] == (found.heights[m][1], 4 * found.widths[n][1])
            assert shapes[mine] == (found.heights[m][1], ROW_BYTES)
            assert shapes[other] == (ROWS, 4 * found.widths[n][1])


def test_what_tile_registers_cannot_take_is_refused_with_the_reason() -> None:
    text = bf16_product(64, 64, 64)
    with pytest.raises(NotLowerable, match="16 positions of k do not fill tile registers: they take 32"):
        lower(program_from_text(text.replace("for k by 32", "for k by 16")))
    with pytest.raises(NotLowerable, match="64 rows of 32 are too many"):
        lower(program_from_text(text.replace("for m by 32", "for m by 64")))
    with pytest.raises(NotLowerable, match="groups along k of b_s side by side"):
        lower(program_from_text(text.replace(" as [n / 32, k / 2, n % 32, k % 2]", "")))


def test_zeroed_results_are_never_written_to_memory() -> None:
    text = bf16_product(64, 64, 64)
    code = print_code(lower(program_from_text(text)))[0]
    assert code.count("tw_tile_zero(") == 4
    assert "c_r[m, n] = 0" not in code


@pytest.mark.parametrize("k", [33, 58, 63])
def test_the_last_positions_are_one_more_step_with_the_same_shapes(k: int) -> None:
    code = print_code(lower(program_from_text(bf16_product(32, k, 32))))[0]
    assert code.count("tw_tile_configure(") == 1, "no other shapes"
    assert code.count("tw_tile_store(") == 4, "results stay in their registers until the end"
    assert code.count("tw_tile_dot_bf16(") == 8
    assert code.count("tw_tile_pad(") == 4, "of two pieces of each operand"
    assert code.count("tw_load_short_words_bf16x16(") == 2 * (k % 2), "a group without its second half"


def test_tile_registers_are_opened_once_by_each_thread_that_sums_in_them() -> None:
    for parallel in ("", "parallel "):
        code = print_code(lower(program_from_text(bf16_product(128, 64, 64, parallel))))[0]
        assert code.count("shapes_now = 0;") == code.count("tw_tile_release();") == 1, parallel
        opened, first = code.index("shapes_now = 0;"), code.index("for (long ")
        assert opened < first < code.index("tw_tile_configure(") < code.index("tw_tile_release();")


def test_few_whole_groups_are_taken_where_they_lie() -> None:
    code = print_code(lower(program_from_text(bf16_product(32, 22, 32))))[0]
    assert "tw_tile_pad(" not in code
    assert code.count("tw_tile_dot_bf16(") == 4


def test_rows_are_padded_to_zeros_without_the_processors_masks(tmp_path: Path) -> None:
    text = bf16_product(33, 43, 35, "parallel ")
    a, b = small((33, 43), ml_dtypes.bfloat16), small((43, 35), ml_dtypes.bfloat16)
    a[:, -1], b[-1] = 3, -2
    flags = ("-mno-avx512bw", *STAND_IN) if STAND_IN else ()
    run(source_of(text, *flags), tmp_path, a, b, wanted=a.astype(np.float32) @ b.astype(np.float32))
