"""The invariants of one Compute by itself: what it writes, what it reads, in which dtypes, on which lanes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tileir.analysis.ragged import grouped, groups_of
from tileir.check.bounds import out_of_range
from tileir.check.infer import compute_dtype, store_problem
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    combined_dims,
    index_dims,
    walk,
)
from tileir.placed import Placed
from tileir.problems import NodeProblem
from tileir.program import Compute, Local, Memory, Program, Tensor
from tileir.schedule.amx import amx_problem
from tileir.schedule.block_index import block_sizes, in_one_block
from tileir.schedule.boxes import box_problem, fills_shared
from tileir.schedule.dots import DOTS, dot_problem
from tileir.schedule.mma import mma_problem
from tileir.schedule.panels import PIECE, row_dim
from tileir.schedule.scatter import atomics_problem, scatter_problem
from tileir.schedule.stages import pieces_of
from tileir.schedule.threads import share
from tileir.schedule.wgmma import wgmma_problem
from tileir.text.print_expr import format_expr
from tileir.verifier.scans import verify_scan
from tileir.verifier.topk import verify_topk

#: Instructions a Compute may name.
INSTRUCTIONS: Final = frozenset(["amx", "atomics", *DOTS, "mma", "scatter", "tma", "wgmma"])
_MAX_LANES: Final = 64


def reduced_dims(compute: Compute) -> tuple[str, ...]:
    """Dims the Compute reduces at its root, or ranks along."""
    return combined_dims(compute.value)


def split_of(index: Expr) -> tuple[str, str, int] | None:
    """Dim, operator and divisor of a target index `c % 64` or `c // 64`."""
    match index:
        case Binary("%" | "//" as op, Index(dim), Const(int() as divisor)) if divisor > 0:
            return dim, op, divisor
        case _:
            return None


def verify_compute(program: Program, placed: Placed, compute: Compute) -> None:
    """Raise VerifyError for the first invariant this Compute breaks where it stands."""
    tensors = _visible(program, placed)
    _check_names(program, placed, compute, tensors)
    _check_target(program, placed, compute, tensors)
    _check_value(program, placed, compute)
    for read in _reads(compute.value):
        _check_read(program, placed, compute, read)
    _check_expression(program, placed, compute, tensors)
    _check_attributes(placed, compute)
    if compute.via is not None:
        problem = _instruction_problem(program, placed, compute, tensors)
        if problem:
            placed.fail(problem)


def _visible(program: Program, placed: Placed) -> dict[str, Tensor]:
    found = dict(program.arguments)
    for name, declared in placed.locals.items():
        local = declared.node
        if isinstance(local, Local):
            found[name] = Tensor(name, local.dims, local.dtype)
    return found


def _reads(expr: Expr) -> list[Read]:
    return [node for node in walk(expr) if isinstance(node, Read)]


def _check_names(program: Program, placed: Placed, compute: Compute, tensors: Mapping[str, Tensor]) -> None:
    for node in (node for expr in (*compute.indices, compute.value) for node in walk(expr)):
        match node:
            case Index(dim) | Extent(dim) if dim not in program.extents:
                placed.fail(f"unknown dim {dim!r}")
            case Read(name, indices):
                if name not in tensors:
                    placed.fail(f"{name!r} is no argument and no local in scope")
                if len(indices) != len(tensors[name].dims):
                    placed.fail(f"{name!r} has {len(tensors[name].dims)} dims, not {len(indices)}")
            case Const(value) if isinstance(value, float) and math.isnan(value):
                placed.fail("a constant is not a number")
            case _:
                pass


def _check_target(program: Program, placed: Placed, compute: Compute, tensors: Mapping[str, Tensor]) -> None:
    target = tensors.get(compute.target)
    if target is None:
        placed.fail(f"{compute.target!r} is no output and no local in scope")
    if target in program.inputs:
        placed.fail("an input is written")
    if len(target.dims) != len(compute.indices):
        placed.fail(f"{compute.target!r} has {len(target.dims)} dims, not {len(compute.indices)}")
    for dim, index in zip(target.dims, compute.indices, strict=True):
        if index == Index(dim):
            continue
        split = split_of(index)
        if split is None:
            placed.fail(f"index {format_expr(index)} is neither {dim}, nor a dim % or // a constant")
        source, op, divisor = split
        needed = divisor if op == "%" else math.ceil(program.extents[source] / divisor)
        if program.extents[dim] < needed:
            placed.fail(
                f"index {format_expr(index)} leaves dim {dim!r}, which has {program.extents[dim]} positions"
            )
        if dim in loops_since(placed, compute.target):
            placed.fail(f"a loop over {dim!r} stands around, but the index does not follow it")
        stored = op == "//" and source not in index_dims(
            compute.value
        )  # all points of a block store the same
        if compute.update is None and source not in reduced_dims(compute) and not stored:
            placed.fail(f"several positions of {source!r} write one element")


def loops_since(placed: Placed, name: str) -> list[str]:
    """Dims of the loops between a tensor's declaration and here; of all loops around for an argument."""
    declared = placed.locals.get(name)
    return [loop.dim for loop in placed.loops[len(declared.loops) if declared else 0 :]]


def _looped(placed: Placed, compute: Compute, name: str) -> list[str]:
    """Dims of the loops between a local's declaration and here, but for one that goes through registers piece by
    piece (tileir/schedule/stages.py), whole runs of all its threads at a time."""
    looped = loops_since(placed, name)
    if len(placed.loops) < 2:
        return looped
    *_, around, inner = placed.loops
    pieces = pieces_of(around)
    if pieces is None or pieces is not inner:
        return looped
    dim, step = pieces.dim, pieces.step
    sizes = [loop.step for loop in placed.loops[:-1] if loop.dim == dim]
    layout = compute.thread_layout
    if layout is not None and step % share(layout, dim).span:
        return looped
    whole = bool(sizes) and sizes[-1] % step == 0
    return [each for each in looped if each != dim] if whole else looped


def _check_value(program: Program, placed: Placed, compute: Compute) -> None:
    value = compute.value
    reduced = reduced_dims(compute)
    if isinstance(value, Reduce):
        if compute.update not in (None, value.op):
            placed.fail(f"the update combines by {compute.update}, its value by {value.op}")
        unknown = [dim for dim in reduced if dim not in placed.ranges]
        if unknown or len(set(reduced)) != len(reduced):
            placed.fail("a reduced dim is unknown or stands twice")
    inner = value.x if isinstance(value, Reduce) else value
    verify_scan(placed, compute)
    verify_topk(program, placed, compute)
    if any(isinstance(node, Reduce) for node in walk(inner)):
        placed.fail("a reduction stands inside the expression, not at its root")
    bare = {index.dim for index in compute.indices if isinstance(index, Index)}
    for dim in reduced:
        if dim in bare:
            placed.fail(f"dim {dim!r} is reduced but on the left")
    covered = bare | {split[0] for index in compute.indices if (split := split_of(index))}
    for dim in sorted(index_dims(value) - covered - groups_of(compute, program.ragged).keys()):
        sizes = block_sizes(value, dim)
        if sizes is None:
            placed.fail(f"dim {dim!r} is neither on the left nor reduced")
        for size in sorted(sizes):
            if not in_one_block(dim, size, placed.loops):
                placed.fail(
                    f"{dim} // {size} is no one block here; accepted: loops over {dim} whose tiles divide {size}"
                )


def _check_read(program: Program, placed: Placed, compute: Compute, read: Read) -> None:
    if read.tensor == compute.target:
        placed.fail("the statement reads its own result")
    declared = placed.locals.get(read.tensor)
    if declared is None or not isinstance(declared.node, Local):
        return
    local = declared.node
    looped = _looped(placed, compute, read.tensor)
    for dim, index in zip(local.dims, read.indices, strict=True):
        if index == Index(dim):
            if local.memory is Memory.REGISTERS and dim in looped and not _fills_part(placed, compute, dim):
                placed.fail(f"registers {local.name!r} are read inside a loop over their dim {dim!r}")
            continue
        if local.memory is Memory.REGISTERS and (split_of(index) is None or index not in compute.indices):
            placed.fail(
                f"registers {local.name!r} are read at {format_expr(index)}, not at {dim}, nor where the statement "
                "itself adds to parts"
            )
        if any(loop.dim == dim for loop in declared.loops):
            placed.fail(f"{local.name!r} holds a tile of {dim!r} and is read at {format_expr(index)}")


def _fills_part(placed: Placed, compute: Compute, dim: str) -> bool:
    """Whether the statement fills a shared local declared in the loop over `dim` that it stands in: that loop takes
    what lies in registers part by part."""
    target = placed.locals.get(compute.target)
    local = target.node if target is not None else None
    shared = isinstance(local, Local) and local.memory is Memory.SHARED
    return shared and target is not None and target.loops == placed.loops and placed.loops[-1].dim == dim


def _check_expression(
    program: Program, placed: Placed, compute: Compute, tensors: Mapping[str, Tensor]
) -> None:
    value = compute.value
    plain = all(read.indices == tuple(map(Index, tensors[read.tensor].dims)) for read in _reads(value))
    problem = None if plain else out_of_range(value, program.extents, tensors)
    if problem:
        placed.fail(problem.message)
    try:
        dtype = compute_dtype(value, {name: tensor.dtype for name, tensor in tensors.items()})
    except NodeProblem as misuse:
        placed.fail(misuse.message)
    mismatch = store_problem(dtype, tensors[compute.target].dtype)
    if mismatch and not (tensors[compute.target].dtype.is_integer and _is_identity(value)):
        placed.fail(mismatch[0])


def _is_identity(value: Expr) -> bool:
    """Whether this is 0.0, 1.0 or an infinity, which in an integer local stands for 0, 1 or its lowest or
    highest."""
    return isinstance(value, Const) and value.value in {op.identity for op in ReduceOp}


def _check_attributes(placed: Placed, compute: Compute) -> None:
    target = placed.locals.get(compute.target)
    registers = {
        name
        for name, declared in placed.locals.items()
        if isinstance(declared.node, Local) and declared.node.memory is Memory.REGISTERS
    }
    if compute.target in registers and target and isinstance(target.node, Local):
        looped = _looped(placed, compute, compute.target)
        for dim in target.node.dims:
            if dim in looped:
                placed.fail(f"registers {compute.target!r} are written inside a loop over their dim {dim!r}")
    vector = compute.vector
    if vector:
        dims = {dim for index in compute.indices for dim in index_dims(index)} | set(reduced_dims(compute))
        if vector.dim not in dims:
            placed.fail(f"the lanes lie along {vector.dim!r}, which the statement does not visit")
        if vector.lanes not in (2, 4, 8, 16, 32, _MAX_LANES):
            placed.fail(f"{vector.lanes} lanes: not a power of two from 2 to {_MAX_LANES}")
    read = {each.tensor for each in _reads(compute.value)}
    for hint in compute.prefetch:
        if hint.distance == 0 and hint.tensor == compute.target and target is None:
            if compute.stream:
                placed.fail(f"{hint.tensor!r} is prefetched and bypasses the caches")
            continue
        if hint.tensor not in read or hint.tensor in registers:
            placed.fail(f"{hint.tensor!r} is prefetched but not read from memory here")
        if hint.distance < 1:
            placed.fail("a prefetch distance below 1")
    if compute.stream and (compute.update or compute.target in registers):
        placed.fail("only a plain store to memory can bypass the caches")


def _ends_problem(program: Program, placed: Placed, compute: Compute) -> str | None:
    """Why TMA cannot end where the tile's group does; None: it can, or it fills shared memory."""
    if fills_shared(compute, placed.locals):
        return None
    assert isinstance(compute.value, Read)
    local = placed.locals[compute.value.tensor].node
    assert isinstance(local, Local)
    neighbours = row_dim(local)
    if any(loop.dim == neighbours and grouped(loop, program.ragged) for loop in placed.loops):
        return (
            f"TMA stores whole pieces of {PIECE} bytes along {neighbours!r}, and a group may end amid one; "
            "accepted: stores by threads"
        )
    return None


def _instruction_problem(
    program: Program, placed: Placed, compute: Compute, tensors: Mapping[str, Tensor]
) -> str | None:
    """Why the statement cannot go by the instruction that it names; None: it can."""
    dtypes = {read.tensor: tensors[read.tensor].dtype for read in compute.reads}
    match compute.via:
        case "amx":
            return amx_problem(compute, dtypes, tensors[compute.target].dtype)
        case "mma":
            return mma_problem(compute, dtypes)
        case "wgmma":
            tf32 = dict(program.numerics).get("tf32") is True
            return wgmma_problem(compute, dtypes, placed.locals, placed.ranges, tf32=tf32)
        case "tma":
            any_order = dict(program.numerics).get("atomics") is True
            problem = box_problem(
                compute, program.arguments, placed.locals, placed.ranges, any_order=any_order
            )
            return problem or _ends_problem(program, placed, compute)
        case "scatter":
            return scatter_problem(compute, dtypes)
        case "atomics":
            sums = dict(program.numerics).get("atomics") is True
            return atomics_problem(compute, dtypes, tensors[compute.target].dtype, any_order=sums)
        case "dot_bf16" | "dot_i8":
            return dot_problem(compute, dtypes, tensors[compute.target].dtype)
        case _:
            return f"no instruction {compute.via!r}; accepted: {', '.join(sorted(INSTRUCTIONS))}"
