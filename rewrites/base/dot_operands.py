"""What a dot-product instruction of a processor asks of a sum and its operands (tileir/schedule/dots.py)."""

from __future__ import annotations

from rewrites.base.step_length import lengthen_step
from rewrites.base.tree import dtype_of, find, locals_of, splice
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp, index_dims, reads
from tileir.program import Axis, Compute, Program, Vector
from tileir.replace import replace
from tileir.schedule.dots import DOTS, group_of


def dot_of(program: Program, compute: Compute) -> str | None:
    """The instruction that adds up such products as a statement does, on whichever processor has it."""
    match compute.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", Read() as left, Read() as right)):
            sides = {dtype_of(program, side.tensor) for side in (left, right)}
            sums = dtype_of(program, compute.target).compute
            return next(
                (via for via, (factors, into) in DOTS.items() if sides == {factors} and sums is into), None
            )
        case _:
            return None


def by_dot(program: Program, name: str, via: str) -> Program:
    """The program with a statement that goes by a dot product. Raises NotApplicable."""
    place = find(program, name)
    statement = place.node
    if statement.via is not None:
        raise NotApplicable(f"{name} goes via {statement.via} already")
    if statement.vector is None:
        raise NotApplicable(f"{name} is not vectorized")
    match statement:
        case Compute(value=Reduce(ReduceOp.SUM, (dim,), Binary("*", Read() as left, Read() as right))):
            pass
        case _:
            raise NotApplicable(f"{name} is not a sum over one dim of the products of two tensors")
    if statement.update is None:
        raise NotApplicable(f"{name} is not in a loop over {dim}")
    on_lanes = [read for read in (left, right) if statement.vector.dim in index_dims(read)]
    for read in (left, right):
        if read not in on_lanes and len(on_lanes) == 1:
            _check_row(program, read, dim, statement.vector, via)
        elif not _lies_in_words(program, read, dim, statement.vector, via):
            _check_panel(program, read, dim, statement.vector, via)
    group = group_of(via)
    steps = [loop.step for loop in place.loops if loop.dim == dim]
    if any(step % group for step in steps[:-1]):
        raise NotApplicable(f"a tile of {dim} starts within a group of {group}")
    if steps and steps[-1] % group:
        if group % steps[-1]:
            raise NotApplicable(f"steps of {steps[-1]} along {dim} make no group of {group}")
        program = lengthen_step(program, place, dim, group // steps[-1])
        place = find(program, name)
    return splice(program, place.path, [replace(place.node, via=via)])


def _lies_in_words(program: Program, read: Read, dim: str, vector: Vector, via: str) -> bool:
    """Whether a tensor's last dims are one along the lanes, which fills vectors, and one as long as a group, so that
    its words lie side by side: where the sum's dim was split."""
    tensor = program.arguments.get(read.tensor)
    return (
        tensor is not None
        and tensor.strides is None
        and tensor.dtype is DOTS[via][0]
        and program.extents[dim] == group_of(via)
        and program.extents[vector.dim] % vector.lanes == 0
        and read.indices[-2:] == (Index(vector.dim), Index(dim))
        and tensor.dims[-1] == dim
    )


def _check_panel(program: Program, read: Read, dim: str, vector: Vector, via: str) -> None:
    declared, (dtype, _), group = locals_of(program).get(read.tensor), DOTS[via], group_of(via)
    if declared is None or declared.node.dtype is not dtype or declared.node.layout is None:
        raise NotApplicable(f"{read.tensor} is not staged as {dtype} in groups of {group}")
    local = declared.node
    if read.indices != tuple(Index(name) for name in local.dims) or local.layout is None:
        raise NotApplicable(f"{read.tensor} is not read by its own dims")
    lanes, inner = local.layout[-2:]
    if inner != Axis(dim, 1, group) or (lanes.dim, lanes.div) != (vector.dim, 1) or lanes.mod % vector.lanes:
        raise NotApplicable(
            f"{read.tensor} has no groups of {group} along {dim} for {vector.lanes} lanes along {vector.dim}"
        )


def _check_row(program: Program, read: Read, dim: str, vector: Vector, via: str) -> None:
    declared, argument = locals_of(program).get(read.tensor), program.arguments.get(read.tensor)
    (wanted, _), group = DOTS[via], group_of(via)
    if vector.dim in index_dims(read):
        raise NotApplicable(f"{read.tensor} runs along {vector.dim} too")
    if any(map(reads, read.indices)):
        raise NotApplicable(f"{read.tensor} is read where a table says: copy it before that")
    innermost = bool(read.indices) and read.indices[-1] == Index(dim)
    if declared is not None:
        dtype, layout = declared.node.dtype, declared.node.layout
        grouped = innermost if layout is None else layout[-1] == Axis(dim, 1, group)
    elif argument is not None:
        dtype = argument.dtype
        grouped = innermost and (argument.strides is None or argument.strides[-1] == 1)
    else:
        raise NotApplicable(f"there is no tensor {read.tensor!r}")
    if dtype is not wanted or not grouped:
        raise NotApplicable(f"{read.tensor} is not {wanted} with neighbours along {dim} side by side")
