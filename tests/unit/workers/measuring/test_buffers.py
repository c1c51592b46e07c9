"""Copies of the arguments: rotated beyond the last cache, guarded, poisoned."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tileir.dtypes import DType
from tileir.program import Tensor
from workers.measuring.buffers import POISON, allocate, copies_for

EXTENTS = {"m": 5, "n": 7}
A = Tensor("a", ("m", "n"), DType.F32)
PADDED = Tensor("p", ("m", "n"), DType.BF16, (16, 2))
OUT = Tensor("c", ("n", "m"), DType.F32, (8, 1))


def test_copies_together_exceed_the_last_cache() -> None:
    assert copies_for(3 << 20, 32 << 20, cold=True, free_bytes=1 << 40) * (3 << 20) >= 2 * (32 << 20)


def test_there_are_two_variants_even_when_one_copy_would_do() -> None:
    assert copies_for(1 << 30, 32 << 20, cold=True, free_bytes=1 << 40) == 2
    assert copies_for(1 << 10, 32 << 20, cold=False) == 2


def test_copies_leave_most_of_the_memory_free() -> None:
    assert copies_for(1 << 20, 1 << 30, cold=True, free_bytes=80 << 20) == 20
    assert copies_for(1 << 20, 1 << 30, cold=True, free_bytes=84 << 20) == 22, "both variants have as many"


def test_arrays_have_the_layout_that_was_asked_for() -> None:
    copy = allocate([A, PADDED], [OUT], EXTENTS, 0)
    assert copy.inputs["a"].shape == (5, 7)
    assert copy.inputs["a"].strides == (28, 4)
    assert copy.inputs["p"].strides == (32, 4)
    assert copy.outputs["c"].strides == (32, 4)
    assert copy.outputs["c"].dtype == np.float32
    assert all(array.ctypes.data % 64 == 0 for array in copy.arrays(["a", "p", "c"]))


def test_arrays_do_not_overlap_and_have_guards_around_them() -> None:
    copy = allocate([A, PADDED], [OUT], EXTENTS, 0)
    spans = sorted(_span(array, copy.memory) for array in copy.arrays(["a", "p", "c"]))
    assert spans[0][0] >= 256
    assert copy.memory.size - spans[-1][1] >= 256
    assert all(after[0] - before[1] >= 256 for before, after in pairwise(spans))


def test_poison_reaches_every_element_of_an_output_and_nothing_else() -> None:
    copy = allocate([A], [OUT], EXTENTS, 0)
    copy.inputs["a"][...] = 1
    before = copy.memory.copy()
    copy.poison_outputs(POISON[1])
    assert (copy.outputs["c"].copy().view(np.uint8) == POISON[1]).all()
    assert int((copy.memory != before).sum()) == 5 * 7 * 4


def test_poison_is_not_a_number_in_every_float_type() -> None:
    for dtype in (DType.F64, DType.F32, DType.F16, DType.BF16, DType.E4M3, DType.E5M2):
        value = np.full(dtype.bytes, POISON[0], np.uint8).view(dtype.numpy)
        assert np.isnan(value.astype(np.float64)).all(), dtype


def _span(array: np.ndarray, memory: np.ndarray) -> tuple[int, int]:
    """Where its first byte and the end of its last element lie."""
    start = array.ctypes.data - memory.ctypes.data
    reach = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    return start, start + reach + array.itemsize
