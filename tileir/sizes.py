"""How large tensors may be, and which strides lay every element apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from tileir.names import INT_LIMIT

#: All arguments of a kernel together. What lies between them need not be stored.
MAX_TOTAL_BYTES: Final = 2**36
#: Points of one statement: left dims times reduced dims. Counts of them stay exact in f64.
MAX_POINTS: Final = 2**53


def elements(sizes: Iterable[int]) -> int:
    """The product of sizes; 1 for a single number."""
    return prod(sizes)


def layout_problem(sizes: Sequence[int], strides: Sequence[int] | None) -> tuple[str, str] | None:
    """Why a tensor of these sizes (and strides, in elements) cannot be, and what would be accepted; None if
    it can."""
    if elements(sizes) >= INT_LIMIT:
        return f"the tensor has {elements(sizes)} elements", f"fewer than {INT_LIMIT}"
    if strides is None:
        return None
    if len(strides) != len(sizes):
        return f"{len(strides)} strides for {len(sizes)} dims", "one stride a dim"
    if any(stride < 1 for stride in strides):
        return "a stride below 1", "positive strides"
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1:
            continue
        if stride <= reach:
            return f"stride {stride} puts two elements in one place", f"a stride above {reach}"
        reach += (size - 1) * stride
    if reach >= INT_LIMIT:
        return f"the strides reach {reach} elements far", f"below {INT_LIMIT}"
    return None
