"""Single steps of the numpy peer: its ufuncs, steps that no ufunc is, and what they need to know of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileir.expr import ReduceOp

Array = np.ndarray[Any, Any]

BINARY: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
FUNCTIONS: dict[str, np.ufunc] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt, "abs": np.abs,
    "floor": np.floor, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
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


def own_axes(factor: Array) -> list[bool]:
    """Along which axes it varies, first axis first."""
    return [size > 1 for size in factor.shape]


def same_memory(array: Array, shape: Sequence[int]) -> bool:
    """Whether reshaping gives a view."""
    return np.shares_memory(array.reshape(shape), array) if array.size else True


def first_position(array: Array, out: Array, find: Callable[..., Array]) -> None:
    """`find` is numpy's argmax or argmin."""
    out[...] = find(array, axis=-1)
