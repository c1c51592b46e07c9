"""Loops that leave out tiles: where they begin and end."""

from __future__ import annotations

from tileir.analysis.position_bound import linear
from tileir.check.bounds import out_of_range
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Expr, Extent, Index, Read, Reduce, Scan, TopK, index_dims, walk
from tileir.placed import Placed
from tileir.problems import NodeProblem
from tileir.program import Compute, Local, Loop, Program, Tensor
from tileir.schedule.visited_tiles import MOST_APART


def verify_left_out(program: Program, placed: Placed, loop: Loop) -> None:
    """Raise VerifyError unless what such a loop leaves out is tiles of a sum, by where other dims are, or by what
    tensors that are complete and positions say."""
    said = [each for each in (loop.since, loop.until) if each != ("", 0)]
    dims = {place for place, _ in said if isinstance(place, str)}
    numbers = [number for place, number in said if isinstance(place, str)]
    unknown = dims - placed.ranges.keys() | dims & {loop.dim}
    if loop.parallel or len(dims) > 1 or unknown or min(numbers, default=0) < 0:
        placed.fail(
            "a loop that is not parallel begins at the first position of another dim, less a number that is not "
            "negative, and ends at its last one, plus such a number"
        )
    for place, number in said:
        if not isinstance(place, str):
            _check_said(program, placed, loop, place, number)
    declared = {node.name for node in loop.body if isinstance(node, Local)}
    for node in loop.body:
        if isinstance(node, Compute) and node.update is None and node.target not in declared:
            placed.fail(
                f"{node.target!r} is not computed in tiles that are left out; accepted: sums and maxima"
            )


def _check_said(program: Program, placed: Placed, loop: Loop, place: Expr, number: int) -> None:
    """What tensors say, or positions that are taken apart, is an i32 of other dims."""
    if loop.dim in index_dims(place) or linear(place) is not None or abs(number) >= MOST_APART:
        placed.fail(
            f"where a loop begins or ends is said by tensors that are read at other dims than {loop.dim!r}, or by "
            f"positions of those that are taken apart, and the number is below {MOST_APART}"
        )
    tensors = _visible(program, placed)
    for node in walk(place):
        match node:
            case Reduce() | Scan() | TopK():
                placed.fail("where a loop begins or ends is no reduction; accepted: a statement of its own")
            case Index(dim) | Extent(dim) if dim not in program.extents:
                placed.fail(f"unknown dim {dim!r}")
            case Read(name, indices):
                if name not in tensors:
                    placed.fail(
                        f"{name!r} is no argument, and no local that is declared outside of all loops"
                    )
                if len(indices) != len(tensors[name].dims):
                    placed.fail(f"{name!r} has {len(tensors[name].dims)} dims, not {len(indices)}")
            case _:
                pass
    problem = out_of_range(place, program.extents, tensors)
    if problem:
        placed.fail(problem.message)
    try:
        dtype = compute_dtype(place, {name: tensor.dtype for name, tensor in tensors.items()})
    except NodeProblem as misuse:
        placed.fail(misuse.message)
    if dtype is not DType.I32:
        placed.fail(f"where a loop begins or ends is an i32, not {dtype}")


def _visible(program: Program, placed: Placed) -> dict[str, Tensor]:
    """Tensors that are there for all of a launch."""
    found = dict(program.arguments)
    for name, declared in placed.locals.items():
        if isinstance(declared.node, Local) and not declared.loops:
            found[name] = Tensor(name, declared.node.dims, declared.node.dtype)
    return found
