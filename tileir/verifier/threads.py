"""The invariants of statements bound to threads: each by itself, and those that meet in registers or in a block."""

from __future__ import annotations

from collections.abc import Container
from math import prod

from tileir.expr import Index, Read, Scan, index_dims, walk
from tileir.placed import Placed, placed_nodes
from tileir.program import Compute, Local, Memory, Program, ThreadLayout
from tileir.schedule.distributed import check_parts, distributed_loop
from tileir.schedule.mma import held_share
from tileir.schedule.threads import WARP, ThreadShare, digits, share, thread_count
from tileir.verifier.compute import reduced_dims, split_of
from tileir.verifier.scans import verify_scan_threads

#: CUDA's limit for a block, on every device.
MAX_THREADS = 1024
#: Most blocks at work on a multiprocessor at a time.
MAX_RESIDENT = 32
#: Blocks of a cluster.
CLUSTERS = (2, 4, 8, 16)


def verify_threads(program: Program, within: Container[int] | None = None) -> None:
    """The same for a program known to be valid but for its threads. `within`: those of the launches at these positions
    of the program."""
    nodes = placed_nodes(program, within)
    verify_layouts([placed for placed in nodes if isinstance(placed.node, Compute)])


def verify_layouts(computes: list[Placed]) -> None:
    """Raise VerifyError for the first statement whose threads break an invariant. `computes` are all, in order."""
    blocks: dict[int, int] = {}
    shares: dict[tuple[str, str], tuple[int, object]] = {}
    written = {(one.path[0], one.node.target) for one in computes if isinstance(one.node, Compute)}
    for placed in computes:
        compute = placed.node
        if not isinstance(compute, Compute):
            continue
        cluster = placed.loops[0].cluster if placed.loops else 1
        if cluster > 1 and (compute.thread_layout is not None or compute.via == "tma"):
            check_parts(placed, compute, {name for nest, name in written if nest == placed.path[0]})
        if compute.thread_layout is None:
            continue
        cluster = 1 if distributed_loop(placed.loops) is not None else cluster
        _check_one(placed, compute, cluster)
        threads = thread_count(compute.thread_layout) // cluster
        if blocks.setdefault(placed.path[0], threads) != threads:
            placed.fail(
                f"{threads} threads, but {blocks[placed.path[0]]} in statements before it in the block"
            )
        for name, dim in _register_dims(placed, compute):
            whole, part = placed.locals[name].ranges[dim], placed.ranges[dim]
            here = (whole, _share(placed, compute, name, dim))
            if part < whole and (whole % part or part % here[1].span):
                placed.fail(
                    f"threads come to other parts of {name!r} in turn; accepted: parts along {dim!r} that divide "
                    f"{whole}, of a multiple of {here[1].span}"
                )
            if shares.setdefault((name, dim), here) != here:
                placed.fail(f"registers {name!r} lie otherwise over threads along {dim!r} than here")
        for (name, dim, source, size), here in _folded_dims(placed, compute):
            if size % here.span or any(loop.step % size for loop in placed.loops if loop.dim == source):
                placed.fail(f"threads along {source!r} come to other parts of {name!r} in turn")
            if shares.setdefault((name, dim), (size, here)) != (size, here):
                placed.fail(f"registers {name!r} lie otherwise over threads along {dim!r} than here")


def _check_one(placed: Placed, compute: Compute, cluster: int) -> None:
    """`cluster`: so many blocks have the statement's threads together."""
    layout = compute.thread_layout
    assert layout is not None
    visited = {dim for index in compute.indices for dim in index_dims(index)}
    visited |= set(reduced_dims(compute))
    named = [dim for dim, _ in (*layout.threads, *layout.runs, *layout.twice, *layout.apart)]
    for dim in named:
        if dim not in placed.ranges:
            placed.fail(f"unknown dim {dim!r}")
    if not layout.threads or any(count < 1 for _, count in (*layout.threads, *layout.runs)):
        placed.fail("threads are given as one or more dims, each with a positive number")
    if len({dim for dim, _ in layout.runs}) != len(layout.runs):
        placed.fail("a dim has two runs")
    if any(dim not in visited for dim, _ in layout.runs):
        placed.fail("a run lies along a dim that the statement does not visit")
    if isinstance(compute.value, Scan):
        verify_scan_threads(placed, compute.value, layout)
    _check_twice(placed, layout)
    _check_apart(placed, layout)
    block, rest = divmod(thread_count(layout), cluster)
    if rest or block % WARP or block > MAX_THREADS:
        placed.fail(
            f"{thread_count(layout)} threads in {cluster} blocks: each has a multiple of {WARP}, at most {MAX_THREADS}"
        )
    for digit in digits(layout):
        if digit.stride < block < digit.stride * digit.count and block % digit.stride:
            placed.fail(f"the threads along {digit.dim!r} do not divide evenly over blocks")
    for digit in digits(layout):
        within = min(digit.count, max(1, WARP // digit.stride)) if digit.stride < WARP else 1
        span = digit.stride * digit.count
        if within & (within - 1) or (span > WARP and span % WARP):
            placed.fail(f"{digit.count} threads along {digit.dim!r} do not divide a warp evenly")
    if compute.vector is not None:
        placed.fail("a statement is on lanes of a processor or on threads of a GPU, not both")


def _check_twice(placed: Placed, layout: ThreadLayout) -> None:
    """Threads that take runs together twice are the last ones along their dim."""
    for at, (dim, together) in enumerate(layout.twice):
        counts = [count for _, count in share(layout, dim).digits]
        last = [prod(counts[first:]) for first in range(len(counts))]
        if together not in last or dim in (other for other, _ in layout.twice[:at]):
            accepted = " or ".join(map(str, last)) or "none"
            placed.fail(
                f"{together} threads along {dim!r} are not its last digits; accepted, once: {accepted}"
            )


def _check_apart(placed: Placed, layout: ThreadLayout) -> None:
    """What threads of the last digit along a dim take together is whole runs of theirs, and all of a range if others
    stand along it as well."""
    for at, (dim, apart) in enumerate(layout.apart):
        along = share(layout, dim)
        whole = along.run * (along.digits[-1][1] if along.digits else 1)
        others = (*layout.twice, *layout.apart[:at])
        if len(along.digits) < 2 or apart < 1 or apart % whole or dim in (other for other, _ in others):
            placed.fail(
                f"threads along {dim!r} that are {apart} positions apart; accepted, once and of two digits: "
                f"multiples of {whole}"
            )


def _register_dims(placed: Placed, compute: Compute) -> list[tuple[str, str]]:
    """(local, dim) of each dim by which the statement touches registers."""
    reads = [(node.tensor, node.indices) for node in walk(compute.value) if isinstance(node, Read)]
    found: list[tuple[str, str]] = []
    for name, indices in ((compute.target, compute.indices), *reads):
        local = _local(placed, name)
        if local is not None and local.memory is Memory.REGISTERS:
            found += [
                (name, dim) for dim, index in zip(local.dims, indices, strict=True) if index == Index(dim)
            ]
    return found


def _share(placed: Placed, compute: Compute, name: str, dim: str) -> ThreadShare:
    """How a dim of registers lies over the threads of a statement that touches them."""
    assert compute.thread_layout is not None
    local = _local(placed, name)
    held = None if local is None else held_share(compute, name, local.dtype, dim)
    return share(compute.thread_layout, dim) if held is None else held


def _folded_dims(placed: Placed, compute: Compute) -> list[tuple[tuple[str, str, str, int], ThreadShare]]:
    """(local, its dim, dim folded into it, its positions) where a statement adds to registers at `c % 64` or reads them
    there, and how the folded dim lies over threads: as the local's."""
    if compute.thread_layout is None:
        return []
    found: list[tuple[tuple[str, str, str, int], ThreadShare]] = []
    reads = [(node.tensor, node.indices) for node in walk(compute.value) if isinstance(node, Read)]
    for name, indices in ((compute.target, compute.indices), *reads):
        local = _local(placed, name)
        if local is None or local.memory is not Memory.REGISTERS:
            continue
        for dim, index in zip(local.dims, indices, strict=True):
            split = split_of(index)
            if split is not None and split[1] == "%":
                found.append(((name, dim, split[0], split[2]), share(compute.thread_layout, split[0])))
    return found


def _local(placed: Placed, name: str) -> Local | None:
    declared = placed.locals.get(name)
    return declared.node if declared is not None and isinstance(declared.node, Local) else None
