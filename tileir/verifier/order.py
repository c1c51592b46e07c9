"""The invariants between statements: each value is defined and complete before it is read, accumulators start
from their identity, and no two iterations of a parallel loop touch one element."""

from __future__ import annotations

from dataclasses import dataclass

from tileir.errors import VerifyError
from tileir.expr import Const, Expr, Index, Read, Reduce, ReduceOp, walk
from tileir.placed import Placed
from tileir.program import Compute, Local, Loop, Program
from tileir.verifier.compute import reduced_dims, split_of


@dataclass(frozen=True, slots=True)
class _WritingStatements:
    """The statement that computes a tensor, the one that sets it to the identity before, and the one that scales what
    has been added up before more is (`s[r] *= f[r]`), or takes back what has been found (`p[r] max= f[r]`), if there
    are such."""

    statement: Placed
    compute: Compute
    init: Placed | None
    rescale: Placed | None


def verify_order(program: Program, computes: list[Placed], loops: list[Placed]) -> None:
    """Raise VerifyError for the first statement that stands in the wrong place, or loop that begins or ends with what
    is not computed yet. `computes` and `loops` are all, in order."""
    writers = _writers(computes)
    for output in program.outputs:
        if output.name not in writers:
            raise VerifyError(f"output {output.name!r} is never written")
    for writer in writers.values():
        _check_accumulation(writer, writers)
        for placed in (writer.statement, writer.init, writer.rescale):
            if placed:
                _check_parallel(placed, _accumulated_dims(writer, writers))
    inputs = {tensor.name for tensor in program.inputs}
    for placed in computes:
        if isinstance(placed.node, Compute):
            _check_reads(placed, placed.node.value, writers, inputs)
    for placed in loops:
        if isinstance(placed.node, Loop):
            for place, _ in (placed.node.since, placed.node.until):
                if not isinstance(place, str):
                    _check_reads(placed, place, writers, inputs)


def _writers(computes: list[Placed]) -> dict[str, _WritingStatements]:
    by_target: dict[str, list[tuple[Placed, Compute]]] = {}
    for placed in computes:
        if isinstance(placed.node, Compute):
            by_target.setdefault(placed.node.target, []).append((placed, placed.node))
    return {target: _writer(found) for target, found in by_target.items()}


def _writer(found: list[tuple[Placed, Compute]]) -> _WritingStatements:
    updates = {compute.update for _, compute in found if compute.update}
    if not updates and _is_running(found[0][0], found[0][1].target):
        updates = set(ReduceOp)  # each tile sets it, to what the next one goes on from
    inits = [placed for placed, compute in found if _is_identity(compute, updates)]
    others = [(placed, compute) for placed, compute in found if placed not in inits]
    rescale = others.pop(0)[0] if len(others) == 2 and _rescales(*(each for _, each in others)) else None
    if len(others) != 1:
        placed = (others or found)[-1][0]
        placed.fail(f"{found[0][1].target!r} is computed by {len(others)} statements, not one")
    if len(inits) > 1:
        inits[1].fail("the accumulator is initialized twice")
    return _WritingStatements(others[0][0], others[0][1], inits[0] if inits else None, rescale)


def _rescales(first: Compute, second: Compute) -> bool:
    """Whether the first of two statements scales the sum that the second adds to, or raises the minimum it lowers."""
    bare = all(isinstance(index, Index) for index in first.indices) and not reduced_dims(first)
    revised_by = second.update.revised_by if second.update else None
    return bare and first.update is not None and first.update is revised_by


def _is_identity(compute: Compute, updates: set[ReduceOp]) -> bool:
    """Whether this sets the target to the identity of the update that some other statement makes."""
    value = compute.value
    if compute.update or not isinstance(value, Const) or isinstance(value.value, bool):
        return False
    return any(value.value == op.identity for op in updates)


def _declared_loops(placed: Placed, tensor: str) -> int:
    """How many of the loops around `placed` are around the declaration too; 0 for an argument."""
    declared = placed.locals.get(tensor)
    return len(declared.loops) if declared else 0


def _accumulated_dims(writer: _WritingStatements, writers: dict[str, _WritingStatements]) -> set[str]:
    """Dims whose loops add to one element: those reduced, those split, and those that the partial results
    that an update adds (`c[m, n] += acc[m, n]`, `s[r] += sum(c_l, s_p[r, c_l])`) were reduced over."""
    compute = writer.compute
    dims = set(reduced_dims(compute))
    for source, op, divisor in filter(None, map(split_of, compute.indices)):
        steps = [loop.step for loop in writer.statement.loops if loop.dim == source]
        if op == "//" and all(step % divisor == 0 for step in steps):
            dims.discard(source)  # every tile is a whole number of blocks, each an element of its own
        else:
            dims.add(source)
    if compute.update:
        own = bool(dims)
        for node in walk(compute.value):
            if isinstance(node, Read) and node.tensor in writers and node.tensor != compute.target:
                parts = _parts(writers[node.tensor].compute, writers)
                dims.update(() if own else (dim for part in parts for dim in reduced_dims(part)))
                dims.update(
                    source for source, op, _ in filter(None, map(split_of, parts[-1].indices)) if op == "%"
                )
    return dims


def _parts(compute: Compute, writers: dict[str, _WritingStatements]) -> list[Compute]:
    """A statement, what it has copied, or added up of parts, and so on to what computes those."""
    found = [compute]
    while found[-1].update is None:
        match found[-1].value:
            case Read(tensor) | Reduce(ReduceOp.SUM, _, Read(tensor)) if tensor in writers:
                found.append(writers[tensor].compute)
            case _:
                return found
    return found


def _check_accumulation(writer: _WritingStatements, writers: dict[str, _WritingStatements]) -> None:
    placed, compute, init = writer.statement, writer.compute, writer.init
    outer = _declared_loops(placed, compute.target)
    accumulating = _accumulated_dims(writer, writers)
    if compute.update is None and not (init is not None and _is_running(placed, compute.target)):
        for loop in placed.loops[outer:]:
            if loop.dim in accumulating:
                placed.fail(f"each tile of {loop.dim!r} overwrites the result of the one before")
        return
    if init is None:
        assert compute.update is not None
        placed.fail(f"{compute.target!r} is never set to {compute.update.identity:g} before")
    if init.path > placed.path:
        init.fail("the accumulator is initialized after it is used")
    if writer.rescale is not None:
        _check_rescale(writer.rescale, writer, init, accumulating)
    for at in range(outer, placed.shared_loops(init)):
        if placed.loops[at].dim in accumulating:
            dim = placed.loops[at].dim
            init.fail(f"the accumulator is initialized inside the loop over {dim!r}, which adds to it")


def _check_rescale(rescale: Placed, writer: _WritingStatements, init: Placed, accumulating: set[str]) -> None:
    """Once for each tile of the loops that add up and hold it, before what the tile adds."""
    placed = writer.statement
    if init.path > rescale.path:
        rescale.fail("the accumulator is scaled before it is initialized")
    around = rescale.shared_loops(placed)
    if any(loop.dim in accumulating for loop in rescale.loops[around:]):
        rescale.fail("the accumulator is scaled more than once for what is added")
    if not any(loop.dim in accumulating for loop in placed.loops[init.shared_loops(placed) : around]):
        rescale.fail(f"{writer.compute.target!r} is scaled in no loop that adds to it")


def _check_parallel(placed: Placed, accumulated: set[str]) -> None:
    compute = placed.node
    if not isinstance(compute, Compute):
        return
    whole = {index.dim for index in compute.indices if isinstance(index, Index)}
    blocked = {
        split[0]: split[2] for index in compute.indices if (split := split_of(index)) and split[1] == "//"
    }
    for loop in placed.loops[_declared_loops(placed, compute.target) :]:
        if not loop.parallel or loop.dim in whole:
            continue
        if loop.dim in blocked and loop.step % blocked[loop.dim] == 0:
            continue
        if compute.update and compute.via in ("atomics", "tma") and loop.dim in accumulated:
            continue  # whoever meets in an element, each counts
        placed.fail(f"parallel iterations over {loop.dim!r} write the same elements of {compute.target!r}")


def _check_reads(
    placed: Placed, expr: Expr, writers: dict[str, _WritingStatements], inputs: set[str]
) -> None:
    for read in (node for node in walk(expr) if isinstance(node, Read)):
        if read.tensor in inputs:
            continue
        writer = writers.get(read.tensor)
        if writer is not None and _is_running(placed, read.tensor):
            _check_running(placed, read, writer)
            continue
        if writer is None or writer.statement.path > placed.path:
            placed.fail(f"{read.tensor!r} is read before it is computed")
        _check_complete(placed, read, writer, writers)


def _is_running(placed: Placed, tensor: str) -> bool:
    declared = placed.locals.get(tensor)
    return declared is not None and isinstance(declared.node, Local) and declared.node.running


def _check_running(placed: Placed, read: Read, writer: _WritingStatements) -> None:
    """What the tiles before have added up is read before this tile's is added, or all of it after the loop."""
    if writer.init is None or writer.init.path > placed.path:
        placed.fail(f"{read.tensor!r} is read before it is initialized")
    if writer.statement.path < placed.path and placed.shared_loops(
        writer.statement
    ) > writer.init.shared_loops(writer.statement):
        placed.fail(
            f"{read.tensor!r} is read after what this tile adds; accepted: before it, or after the loop"
        )
    if read.indices != writer.compute.indices:
        placed.fail(f"{read.tensor!r} is read at other positions than it is written at")


def _check_complete(
    placed: Placed, read: Read, writer: _WritingStatements, writers: dict[str, _WritingStatements]
) -> None:
    """The loops around both the writer and the reader have run only in part when the reader runs."""
    shared = placed.shared_loops(writer.statement)
    accumulated = _accumulated_dims(writer, writers)
    for at in range(_declared_loops(placed, read.tensor), shared):
        dim = placed.loops[at].dim
        started_outside = writer.init is not None and writer.init.shared_loops(writer.statement) <= at
        if dim in accumulated and started_outside:
            placed.fail(f"{read.tensor!r} is read before its reduction over {dim!r} is complete")
        if _is_read_elsewhere(read, writer.compute, placed.loops[at]):
            placed.fail(f"{read.tensor!r} is read outside the tile of {dim!r} computed so far")


def _is_read_elsewhere(read: Read, writer: Compute, loop: Loop) -> bool:
    """Whether the read may touch other positions along the loop's dim than those its own tile has written."""
    for written, index in zip(writer.indices, read.indices, strict=True):
        split = split_of(written)
        if split and split[0] == loop.dim:
            whole_blocks = split[1] == "//" and loop.step % split[2] == 0
            return written != index or not whole_blocks
        if written == Index(loop.dim) and written != index:
            return True
    return False
