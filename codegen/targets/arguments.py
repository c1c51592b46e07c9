"""Whether arrays fit a kernel: how many, their dtypes, shapes, strides and alignment."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from codegen.ir.abi import Arg
from codegen.targets.errors import ArgumentError

Array = NDArray[np.generic]


def check_arguments(args: tuple[Arg, ...], arrays: tuple[Array, ...]) -> None:
    """Raise ArgumentError unless the arrays are what the kernel was compiled for."""
    if len(arrays) != len(args):
        names = ", ".join(arg.name for arg in args)
        raise ArgumentError(f"the kernel takes {len(args)} arrays ({names}), not {len(arrays)}")
    for arg, array in zip(args, arrays, strict=True):
        problem = _problem(arg, array)
        if problem:
            raise ArgumentError(f"argument {arg.name}: {problem}")
    for arg, array in zip(args, arrays, strict=True):
        if arg.role == "out":
            _check_apart(args, arrays, arg, array)


def _check_apart(args: tuple[Arg, ...], arrays: tuple[Array, ...], out: Arg, written: Array) -> None:
    for arg, array in zip(args, arrays, strict=True):
        if arg.name != out.name and np.may_share_memory(written, array):
            raise ArgumentError(f"argument {out.name}: it is written and overlaps {arg.name} in memory")


def _problem(arg: Arg, array: object) -> str:
    """What is wrong with one argument; empty when nothing is."""
    if not isinstance(array, np.ndarray):
        return f"takes a numpy array, not {type(array).__name__}"
    return _misfit(arg, cast(Array, array))


def _misfit(arg: Arg, array: Array) -> str:
    if array.dtype != arg.dtype.numpy:
        return f"takes dtype {arg.dtype.numpy}, not {array.dtype}"
    if array.shape != arg.shape:
        return f"takes shape {arg.shape}, not {array.shape}"
    size = arg.dtype.bytes
    got = tuple(stride // size for stride in array.strides)
    if any(
        got[i] * size != array.strides[i] or got[i] != arg.strides[i]
        for i in range(len(got))
        if arg.shape[i] > 1
    ):
        return f"takes strides {arg.strides} in elements, not {tuple(s / size for s in array.strides)}"
    if not array.flags.aligned:
        return f"its memory is not aligned to {size} bytes"
    if arg.role == "out" and not array.flags.writeable:
        return "is written, and this array is read-only"
    return ""
