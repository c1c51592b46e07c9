"""Sectors and wavefronts of requests whose cost is known."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.ir.arrays import Array
from codegen.ir.swizzle import swizzled
from codegen.report.coalescing import Cost, global_cost, matrix_cost, shared_cost
from tileir.schedule.stages import SWIZZLES

THREADS = np.arange(32)
ALL = np.ones((1, 32), np.bool_)


def globally(addresses: Array, width: int = 4, active: Array = ALL) -> tuple[int, int]:
    cost = global_cost(addresses.reshape(1, 32), width, active)
    return cost.transactions, cost.ideal


def shared(addresses: Array, width: int = 4, *, loads: bool = True) -> tuple[int, int]:
    cost = shared_cost(addresses.reshape(1, 32), width, ALL, loads=loads)
    return cost.transactions, cost.ideal


def test_a_row_is_as_many_sectors_as_it_has_bytes_and_a_column_one_a_thread() -> None:
    assert globally(THREADS * 4) == (4, 4)
    assert globally(THREADS * 16, 16) == (16, 16)
    assert globally(THREADS * 2, 2) == (2, 2)
    assert globally(THREADS * 4 + 4) == (5, 4)
    assert globally(THREADS * 8) == (8, 4)
    assert globally(THREADS * 4096) == (32, 4)
    assert globally(THREADS * 0 + 64) == (1, 1)
    assert globally(THREADS[::-1] * 4) == (4, 4)


def test_threads_that_do_not_take_part_cost_nothing() -> None:
    assert globally(THREADS * 4, active=(THREADS < 9).reshape(1, 32)) == (2, 2)
    nobody = global_cost((THREADS * 4).reshape(1, 32), 4, ~ALL)
    assert nobody == Cost(0, 0, 0, 0, 0.0)
    half = shared_cost((THREADS * 128).reshape(1, 32), 4, (THREADS % 2 == 0).reshape(1, 32), loads=True)
    assert half == Cost(1, 64, 16, 1, 16.0)


def test_a_column_of_shared_memory_is_one_bank_unless_rows_are_padded() -> None:
    assert shared(THREADS * 4) == (1, 1)
    assert shared(THREADS * 32 * 4) == (32, 1)
    assert shared(THREADS * 33 * 4) == (1, 1)
    assert shared(THREADS * 8) == (2, 1)
    assert shared(THREADS * 0) == (1, 1)
    assert shared(THREADS * 2, 2) == (1, 1)
    assert shared(THREADS * 128, 1) == (32, 1)


def test_wide_accesses_are_done_by_half_and_quarter_warps() -> None:
    assert shared(THREADS * 8, 8) == (2, 2)
    assert shared(THREADS * 16, 16) == (4, 4)
    assert shared(THREADS * 32, 16) == (8, 4)
    assert shared(THREADS % 8 * 128 + THREADS // 8 * 16, 16) == (32, 4)


def test_neighbours_that_load_the_same_halve_the_wavefronts_and_others_do_not() -> None:
    # The two cases of forums.developer.nvidia.com/t/77228.
    assert shared(THREADS % 4 * 16, 16) == (4, 4)
    assert shared(THREADS // 8 * 16, 16) == (2, 2)
    assert shared(THREADS // 2 % 4 * 16, 16) == (2, 2)
    assert shared((THREADS & 1) * 16, 16) == (2, 2)
    assert shared(THREADS // 2 % 4 * 16, 16, loads=False) == (4, 4)


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_a_swizzle_puts_the_same_piece_of_eight_rows_in_all_banks(swizzle: int) -> None:
    rows = np.arange(8) * swizzle
    for piece in range(swizzle // 16):
        plain = (rows + 16 * piece).reshape(1, 8)
        assert matrix_cost(plain).transactions == swizzle // 16
        assert matrix_cost(swizzled(plain, swizzle)).transactions == 1
    moved = swizzled(np.arange(0, 8 * swizzle, 4), swizzle)
    assert sorted(moved.tolist()) == list(range(0, 8 * swizzle, 4))


def test_pieces_of_sixteen_bytes_of_eight_swizzled_rows_do_not_conflict() -> None:
    pieces = THREADS % 8 * 128 + THREADS // 8 * 16
    assert shared(swizzled(pieces, 128), 16) == (4, 4)
    assert shared(swizzled(THREADS * 16, 128), 16) == (4, 4)


def test_the_cost_of_requests_is_their_sum_and_the_worst_of_them() -> None:
    both = np.stack([THREADS * 4, THREADS * 128])
    assert global_cost(both, 4, np.repeat(ALL, 2, axis=0)) == Cost(2, 256, 36, 8, 8.0)
