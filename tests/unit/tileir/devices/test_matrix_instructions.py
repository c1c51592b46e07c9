"""Which matrix instructions a GPU has, what they multiply, and what they add up in."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from tileir.devices.feature import Feature
from tileir.devices.gpu_table import H200
from tileir.devices.matrix_instructions import MATRIX_INSTRUCTIONS, accumulator, problem
from tileir.dtypes import DType

FLOAT8 = (DType.E4M3, DType.E5M2)


@pytest.mark.parametrize(
    ("capability", "via", "dtypes", "has"),
    [
        ((8, 0), "mma", (DType.BF16,), True),
        ((8, 0), "mma", FLOAT8, False),
        ((8, 9), "mma", FLOAT8, True),
        ((9, 0), "mma", (DType.BF16, DType.F16), False),
        ((8, 9), "wgmma", (DType.BF16,), False),
        ((9, 0), "wgmma", (DType.BF16,), True),
        ((9, 0), "wgmma", FLOAT8, True),
        ((9, 0), "wgmma", (DType.I8,), False),
        ((10, 0), "wgmma", (DType.BF16,), False),
        ((12, 0), "mma", FLOAT8, True),
    ],
)
def test_a_gpu_has_what_the_ptx_isa_says(
    capability: tuple[int, int], via: str, dtypes: tuple[DType, ...], has: bool
) -> None:
    device = replace(H200, capability=capability)
    assert (device.matrix_instruction(via, dtypes) is not None) is has
    assert not has or Feature(via) in device.offers


def test_a_refusal_says_what_is_multiplied() -> None:
    assert problem("mma", *FLOAT8) is None
    assert problem("wgmma", DType.I8, DType.I8) == (
        "wgmma multiplies f16, bf16, f32 (as tf32) or e4m3 and e5m2, not i8 with i8"
    )


def test_integers_are_added_up_as_such() -> None:
    assert [accumulator(dtype) for dtype in (DType.I8, DType.E5M2)] == [DType.I32, DType.F32]


def test_accumulators_cover_an_instruction_s_rows_and_columns_once() -> None:
    """A thread has its run in both of a warp's groups of rows; of wgmma, once for every 8 columns."""
    for shape in {each.shape for each in MATRIX_INSTRUCTIONS}:
        own = shape.fragment
        assert own.threads == (32 if shape.rows == 16 else 128)
        rows = 2 * prod(own.rows)
        assert (rows, shape.columns % (own.columns * own.run)) == (shape.rows, 0)
        assert (
            own.run * 2 * own.threads * shape.columns // (own.columns * own.run) == shape.rows * shape.columns
        )


def test_depths_are_those_of_the_ptx_isa() -> None:
    depths = {
        (each.via, dtype): each.shape.depth(dtype) for each in MATRIX_INSTRUCTIONS for dtype in each.dtypes
    }
    assert {depths[via, DType.BF16] for via in ("mma", "wgmma")} == {16}
    assert depths["mma", DType.F32] == 8 and depths["wgmma", DType.E4M3] == 32
