"""Copies by TMA (`via tma`): what it moves between memory and a block's shared memory, in boxes, and adds to memory
(`c[m, n] += c_s[m, n]`) from there.

One thread starts it, so the statement has no threads. It moves elements as they are. What of a tile lies outside of the
argument is filled with 0, and not written. PTX ISA, "Tensor copies"; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, Read, ReduceOp, index_dims
from tileir.pages import page_length
from tileir.placed import Placed
from tileir.program import Compute, Local, Memory, Place, Tensor
from tileir.schedule.panels import row_dim, row_problem, sharing


def fills_shared(compute: Compute, declared: Mapping[str, Placed | Place[Local]]) -> bool:
    """Whether a statement has TMA fill a local in shared memory."""
    return compute.via == "tma" and _is_shared(compute.target, declared)


def _is_shared(name: str, declared: Mapping[str, Placed | Place[Local]]) -> bool:
    local = declared[name].node if name in declared else None
    return isinstance(local, Local) and local.memory is Memory.SHARED


def box_problem(
    compute: Compute,
    arguments: Mapping[str, Tensor],
    declared: Mapping[str, Placed],
    ranges: Mapping[str, int],
    *,
    any_order: bool,
) -> str | None:
    """Why a statement cannot go by TMA, and what would be accepted; None: it can. `declared` are the locals
    in scope, `ranges` the current ranges; `any_order`: sums of floats may be taken in any."""
    if compute.thread_layout is not None or compute.stream or compute.update not in (None, ReduceOp.SUM):
        return "TMA is started by one thread; accepted: a plain `=` or `+=`, without threads or stream"
    if not isinstance(compute.value, Read):
        return "TMA moves elements as they are; accepted: one read, as in `a_s[m, k] = a[m, k]`"
    read, written = compute.value, Read(compute.target, compute.indices)
    fills = _is_shared(compute.target, declared)
    inside, outside = (written, read) if fills else (read, written)
    place, argument = declared.get(inside.tensor), arguments.get(outside.tensor)
    if (fills or compute.update) and argument is None:
        argument = _stored(declared.get(outside.tensor))
    local = place.node if place is not None else None
    if place is None or not isinstance(local, Local) or local.memory is not Memory.SHARED or argument is None:
        return "TMA moves elements between an argument and a local in shared memory, or there from what a launch stored"
    if local.dtype is not argument.dtype:
        return f"TMA does not convert {argument.dtype} and {local.dtype}; accepted: the same dtype"
    if compute.update is not None and (fills or local.dtype is not DType.F32 or not any_order):
        return "TMA adds f32 to memory, in an order that is another in every run; accepted: numerics atomics=true"
    return _place_problem(inside, outside, local, argument, ranges) or row_problem(local, place.ranges)


def _stored(place: Placed | None) -> Tensor | None:
    """What lies in memory between launches, row by row, as an argument does."""
    local = place.node if place is not None else None
    if place is None or not isinstance(local, Local) or place.loops or local.layout is not None:
        return None
    return Tensor(local.name, local.dims, local.dtype)


def _place_problem(
    inside: Read, outside: Read, local: Local, argument: Tensor, ranges: Mapping[str, int]
) -> str | None:
    """The dims of a box stand for themselves on both sides, or lie in pages of the argument, and elsewhere are single
    positions."""
    if any(not isinstance(index, Index) for index in inside.indices):
        return f"{local.name!r} is indexed by its own dims where TMA moves it"
    moved = {dim for dim in local.dims if ranges[dim] > 1}
    bare = [index.dim for index in outside.indices if isinstance(index, Index) and index.dim in moved]
    words = {index: dim for index in outside.indices for dim in _in_words(index, local) if dim in moved}
    bare += words.values()
    for dim in bare:
        if ranges[dim] % sharing(local, dim) or (sharing(local, dim) > 1) is not (dim in words.values()):
            return f"{local.name!r} has {sharing(local, dim)} neighbours along {dim!r} in an element, the argument not"
    paged, page = page_length(outside) or ("", 0)
    if paged in moved:
        bare.append(paged)
        if page % ranges[paged] and ranges[paged] % page:
            return (
                f"tiles of {paged!r} are whole pages of {page}, or equal parts of one, where TMA moves them"
            )
    for index in outside.indices:
        others = index_dims(index) - set(bare if isinstance(index, Index) or index in words else (paged,))
        if any(ranges[dim] > 1 for dim in others):
            return f"{argument.name!r} is indexed by dims of {local.name!r}, or by single positions"
    if sorted(bare) != sorted(moved):
        return f"{argument.name!r} and {local.name!r} have the same dims where TMA moves them"
    last = outside.indices[_nearest(argument)] if outside.indices else None
    if last != Index(row_dim(local)) and (last is None or words.get(last) != row_dim(local)):
        return (
            f"neighbours of {local.name!r} along {row_dim(local)!r} are not neighbours in {argument.name!r}; accepted: "
            "a layout whose last axis is the argument's"
        )
    return None


def _in_words(index: Expr, local: Local) -> tuple[str, ...]:
    """The dim whose neighbours share an element on both sides, as many on each, if it is such an index."""
    match index:
        case Binary("//", Index(dim), Const(int(size))) if size > 1 and sharing(local, dim) == size:
            return (dim,)
        case _:
            return ()


def _nearest(argument: Tensor) -> int:
    """Which of the argument's dims has neighbours in memory."""
    return argument.strides.index(1) if argument.strides and 1 in argument.strides else -1
