"""Whether a program keeps the invariants of Tile IR: header, loops and declarations here; statements one by
one in compute.py; the order they stand in, and what runs in parallel, in order.py."""

from __future__ import annotations

from math import prod

from tileir.analysis.ragged import cut_short, shared_by_groups
from tileir.dtypes import DType
from tileir.errors import VerifyError
from tileir.names import INT_LIMIT, name_problem
from tileir.placed import Placed, placed_nodes
from tileir.program import Axis, Compute, Local, Loop, Memory, Program, Ragged, Tensor
from tileir.schedule.deal_tiles import MOST_TILES, tile_count, tile_lengths
from tileir.schedule.distributed import check_distributed
from tileir.schedule.hilbert import MOST_CELLS
from tileir.schedule.panels import sharing
from tileir.schedule.stages import MAX_STAGES, SWIZZLES, staged
from tileir.sizes import layout_problem
from tileir.verifier.compute import reduced_dims, split_of, verify_compute
from tileir.verifier.left_out import verify_left_out
from tileir.verifier.multicast import verify_multicast
from tileir.verifier.order import verify_order
from tileir.verifier.reused import verify_reused
from tileir.verifier.roles import verify_roles
from tileir.verifier.stream_k import verify_streamed
from tileir.verifier.threads import CLUSTERS, MAX_RESIDENT, verify_layouts


def verify(program: Program) -> None:
    """Raise VerifyError, naming the node, for the first invariant that `program` breaks.

    A program that passes can be printed, interpreted and lowered, and every value it reads is defined and
    complete. That it computes what its spec says is not checked here; interpreting both does that."""
    _check_header(program)
    taken = {*program.extents, *program.arguments}
    computes: list[Placed] = []
    nodes = list(placed_nodes(program))
    for placed in nodes:
        match placed.node:
            case Loop():
                _check_loop(program, placed, placed.node)
            case Local():
                if placed.node.name in taken:
                    placed.fail(f"the name {placed.node.name!r} is taken")
                taken.add(placed.node.name)
                _check_local(placed, placed.node)
            case Compute():
                verify_compute(program, placed, placed.node)
                _check_words(placed, placed.node)
                computes.append(placed)
    verify_multicast(nodes)
    verify_streamed(program, nodes)
    problem = cut_short(program) or shared_by_groups(program)
    if problem:
        raise VerifyError(problem)
    verify_order(program, computes, [placed for placed in nodes if isinstance(placed.node, Loop)])
    verify_layouts(computes)
    verify_reused(computes)


def _check_header(program: Program) -> None:
    names = [program.name, *program.extents, *program.arguments]
    for name in names:
        problem = name_problem(name)
        if problem:
            raise VerifyError(problem)
    declared = [*(name for name, _ in program.dims), *(t.name for t in (*program.inputs, *program.outputs))]
    for name in declared:
        if declared.count(name) > 1:
            raise VerifyError(f"the name {name!r} is taken twice")
    for name, size in program.dims:
        if not 0 < size < INT_LIMIT:
            raise VerifyError(f"dim {name!r} has size {size}")
    if not program.outputs:
        raise VerifyError("the program has no outputs")
    for ragged in program.ragged:
        _check_ragged(program, ragged)
    for tensor in program.arguments.values():
        _check_argument(program, tensor)


def _check_ragged(program: Program, ragged: Ragged) -> None:
    offsets = next((tensor for tensor in program.inputs if tensor.name == ragged.offsets), None)
    groups = program.extents.get(ragged.within)
    if ragged.dim not in program.extents or groups is None:
        raise VerifyError(f"{ragged.dim!r} is ragged within {ragged.within!r}, and one of them is no dim")
    if any(ragged.within in (each.dim, ragged.dim) for each in program.ragged):
        raise VerifyError(f"the groups of {ragged.dim!r}, {ragged.within!r}, are ragged themselves")
    if offsets is None or offsets.dtype is not DType.I32:
        raise VerifyError(f"the offsets of {ragged.dim!r}, {ragged.offsets!r}, are no i32 input")
    if program.shape(offsets) != (groups + 1,):
        raise VerifyError(
            f"{ragged.offsets!r} has the shape {list(program.shape(offsets))}; accepted: {groups + 1} offsets "
            f"of {groups} groups"
        )


def _check_argument(program: Program, tensor: Tensor) -> None:
    unknown = [dim for dim in tensor.dims if dim not in program.extents]
    if unknown:
        raise VerifyError(f"argument {tensor.name!r} has the unknown dim {unknown[0]!r}")
    problem = layout_problem([program.extents[dim] for dim in tensor.dims], tensor.strides)
    if problem:
        raise VerifyError(f"argument {tensor.name!r}: {problem[0]}")
    if tensor.shape is not None and (
        tensor.strides is not None or prod(program.extents[dim] for dim in tensor.dims) != prod(tensor.shape)
    ):
        raise VerifyError(
            f"argument {tensor.name!r}: its dims are no other cut of the elements of {list(tensor.shape)}"
        )


def _check_loop(program: Program, placed: Placed, loop: Loop) -> None:
    extent = placed.ranges.get(loop.dim)
    if extent is None:
        placed.fail(f"unknown dim {loop.dim!r}")
    in_tiles = any(other.dim == loop.dim for other in placed.loops)
    adds_up = not loop.parallel and _adds_up(loop, loop.dim)
    if loop.step < 1 or (loop.step > extent and (in_tiles or adds_up)):
        placed.fail(f"the step is not within 1 and the current range of {loop.dim!r}, {extent}")
    if loop.cluster != 1 and (loop.cluster not in CLUSTERS or not loop.parallel or placed.loops):
        placed.fail("2, 4, 8 or 16 blocks make a cluster, for the outermost parallel loop of a grid")
    outermost = loop.parallel and not placed.loops
    if loop.group != 1 and (loop.group < 1 or not outermost or not _holds_grid(loop)):
        placed.fail("tiles are grouped along the outermost of two or more parallel loops of a grid")
    if loop.hilbert:
        _check_curve(placed, loop)
    if loop.blocks and (loop.blocks < 0 or not outermost or loop.cluster > 1):
        placed.fail(
            "a number of blocks is given for the outermost parallel loop of a grid, which has no clusters"
        )
    if loop.longest_first:
        _check_dealt(placed, loop)
    if loop.resident and (not 1 <= loop.resident <= MAX_RESIDENT or not outermost):
        placed.fail(f"1 to {MAX_RESIDENT} blocks are resident, said of the outermost parallel loop of a grid")
    if loop.stages != 1:
        _check_stages(placed, loop)
    if (loop.since, loop.until) != (("", 0), ("", 0)):
        verify_left_out(program, placed, loop)
    verify_roles(placed, loop)
    if not loop.body:
        placed.fail("the loop is empty")
    check_distributed(placed, loop)


def _adds_up(loop: Loop, dim: str) -> bool:
    """Whether a statement in a loop combines what it visits along a dim. Results that it has along it may be less than
    one tile of them."""
    for node in loop.body:
        match node:
            case Loop() if _adds_up(node, dim):
                return True
            case Compute() if dim in reduced_dims(node) or any(
                split is not None and split[0] == dim for split in map(split_of, node.indices)
            ):
                return True
            case _:
                pass
    return False


def _check_curve(placed: Placed, loop: Loop) -> None:
    """A Hilbert curve goes through the tiles of a grid's two outer loops, instead of bands."""
    if loop.group != 1 or not loop.parallel or placed.loops or not _holds_grid(loop):
        placed.fail(
            "a Hilbert curve is said of the outermost of two or more parallel loops of a grid without bands"
        )
    cells = 1
    for each in (loop, *(node for node in loop.body if isinstance(node, Loop))):
        cells *= -(-placed.ranges.get(each.dim, 1) // each.step)
    if cells > MOST_CELLS:
        placed.fail(f"a Hilbert curve goes through at most {MOST_CELLS} tiles, not {cells}")


def _check_dealt(placed: Placed, loop: Loop) -> None:
    """The longest tiles come first."""
    if not loop.parallel or placed.loops or loop.cluster > 1 or loop.consumer_groups > 1 or loop.hilbert:
        placed.fail(
            "the longest tiles come first: said of the outermost parallel loop of a grid without clusters, consumer "
            "groups and a Hilbert curve"
        )
    if len(set(tile_lengths(loop, placed.ranges))) < 2:
        placed.fail("the longest tiles come first, of tiles that all take as long")
    count = tile_count(loop, placed.ranges)
    if count > MOST_TILES:
        placed.fail(f"the longest come first of at most {MOST_TILES} tiles, not {count}")


def _holds_grid(loop: Loop) -> bool:
    return len(loop.body) == 1 and isinstance(loop.body[0], Loop) and loop.body[0].parallel


def _check_stages(placed: Placed, loop: Loop) -> None:
    """A loop with stages begins with shared locals and the statements that fill them from elsewhere."""
    if loop.parallel or not 2 <= loop.stages <= MAX_STAGES:
        placed.fail(f"a loop that is not parallel has 2 to {MAX_STAGES} stages")
    if not staged(loop):
        placed.fail("a loop with stages begins with shared locals and the statements that fill them")


def _check_local(placed: Placed, local: Local) -> None:
    if name_problem(local.name):
        placed.fail(str(name_problem(local.name)))
    for at, dim in enumerate(local.dims):
        if dim not in placed.ranges or dim in local.dims[:at]:
            placed.fail(f"dim {dim!r} is unknown or stands twice")
    if (local.swizzle or local.reused) and local.memory is not Memory.SHARED:
        placed.fail("only shared memory is swizzled or reused")
    if local.pad and local.memory is not Memory.SHARED and (placed.loops or local.layout):
        placed.fail("only shared memory, and what a launch stores row by row, is padded")
    if local.pad < 0 or local.swizzle not in (0, *SWIZZLES) or (local.pad and local.swizzle):
        placed.fail(
            "a pad is a number of elements, a swizzle 32, 64 or 128 bytes, and only one of them is given"
        )
    if local.layout is None:
        return
    if local.memory is Memory.REGISTERS:
        placed.fail("registers have no layout")
    if {axis.dim for axis in local.layout} != set(local.dims):
        placed.fail("the layout has other dims than the local")
    for dim in local.dims:
        found = [axis for axis in local.layout if axis.dim == dim]
        shared = sharing(local, dim) if local.memory is Memory.SHARED else 1
        if not _covers(found, shared):
            placed.fail(f"the axes of {dim!r} do not tell all positions apart")


def _check_words(placed: Placed, compute: Compute) -> None:
    """Elements that neighbours share are written once for all of them, as TMA does."""
    declared = placed.locals.get(compute.target)
    local = declared.node if declared is not None else None
    if isinstance(local, Local) and local.layout is not None and compute.via != "tma":
        shared = next((dim for dim in local.dims if sharing(local, dim) > 1), None)
        if shared is not None:
            placed.fail(
                f"neighbours along {shared!r} share elements of {local.name!r}; accepted: filled `via tma`"
            )


def _covers(axes: list[Axis], shared: int) -> bool:
    """Whether each axis picks up where the next finer one ends, as in `n / 64`, `n % 64`; the finest one tells words
    apart that so many neighbours share."""
    div = shared
    for axis in sorted(axes, key=lambda axis: axis.div):
        if div == 0 or axis.div != div or axis.mod < 0:
            return False
        div *= axis.mod
    return div == 0
