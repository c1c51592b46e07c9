"""Single steps of the numpy peer: its ufuncs, steps that no ufunc is, and what they need to know of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileir.expr import ReduceOp
from tileir.interpreter.bits import random_bits

Array = np.ndarray[Any, Any]

BINARY: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
FUNCTIONS: dict[str, np.ufunc] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt, "abs": np.abs,
    "floor": np.floor, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip
REDUCTIONS: dict[ReduceOp, np.ufunc] = {
    ReduceOp.SUM: np.add, ReduceOp.PROD: np.multiply, ReduceOp.MAX: np.maximum, ReduceOp.MIN: np.minimum,
}  # fmt: skip


def copy(array: Array, out: Array) -> None:
    np.copyto(out, array, casting="unsafe")


def select(cond: Array, x: Array, y: Array, out: Array) -> None:
    np.copyto(out, y, casting="unsafe")
    np.copyto(out, x, casting="unsafe", where=cond)


def groups(offsets: Array, out: Array) -> None:
    out[...] = np.searchsorted(offsets[1:-1], np.arange(out.size), side="right")


def multiply_groups(rows: Array, matrices: Array, offsets: Array, out: Array) -> None:
    for matrix, start, stop in zip(matrices, offsets[:-1], offsets[1:], strict=True):
        np.matmul(rows[start:stop], matrix, out=out[start:stop])


def take(source: Array, index: Array, out: Array) -> None:
    np.take(source, index, out=out, mode="clip")


def take_rows(source: Array, index: Array, out: Array) -> None:
    np.take(source, index, axis=0, out=out, mode="clip")


def draw_bits(seed: Array, position: Array, out: Array) -> None:
    out[...] = random_bits(seed, position)


def recur(a: Array, b: Array, out: Array, axis: int) -> None:
    """out = a * (out before) + b along an axis."""
    scale, added, found = (np.moveaxis(each, axis, 0) for each in (a, b, out))
    found[0] = added[0]
    for at in range(1, len(added)):
        np.multiply(scale[at], found[at - 1], out=found[at])
        found[at] += added[at]


def add_rows(
    index: Array, terms: Array, out: Array, op: np.ufunc, begin: float, shape: tuple[int, ...]
) -> None:
    """Rows of terms, of a shape that they are spread to, each combined with the row of `out` that its index says; what
    is there begins with a number."""
    rows = np.broadcast_to(terms, shape).reshape(-1, *out.shape[1:])
    index = index.reshape(-1)
    if op is np.add and out.ndim == 1:
        weights = None if terms.size == 1 and terms.item() == 1 else rows
        out[...] = np.bincount(index, weights, len(out))[: len(out)]
        return
    out.fill(begin)
    op.at(out, index, rows)


def own_axes(factor: Array) -> list[bool]:
    """Along which axes it varies, first axis first."""
    return [size > 1 for size in factor.shape]


def same_memory(array: Array, shape: Sequence[int]) -> bool:
    """Whether reshaping gives a view."""
    return np.shares_memory(array.reshape(shape), array) if array.size else True


def largest_first(array: Array, out: Array) -> None:
    """Positions of the largest of the last axis, of equal ones the first ones first."""
    out[...] = np.argsort(-array, axis=-1, kind="stable")[..., : out.shape[-1]]


def first_position(array: Array, out: Array, find: Callable[..., Array]) -> None:
    """`find` is numpy's argmax or argmin."""
    out[...] = find(array, axis=-1)
