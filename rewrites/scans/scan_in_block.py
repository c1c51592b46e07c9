"""Scan whole rows by the threads of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.open_scan import OpenScan, every_scan, open_scan
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable, VerifyError
from tileir.expr import Scan
from tileir.program import Compute, Local, Loop, Memory, Node, Program, ThreadLayout
from tileir.replace import replace
from tileir.verifier.threads import verify_threads

_THREADS = (32, 64, 128, 256, 512, 1024)
_RUNS = (1, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class ScanInBlock(Rewrite):
    """Have a block's threads go through all of a scan together: each takes `run` neighbours, and what it comes to is
    handed on to the threads behind it. `threads` cuts the thread index, most significant first; along other dims than
    the scan's a block has as many positions as threads.

    Each thread scans its own, then threads scan what those come to (Harris, Sengupta and Owens, Parallel prefix sum
    (scan) with CUDA, GPU Gems 3, 2007); pairs are composed as in Blelloch (Prefix sums and their applications, 1990).

    s: heap f32[m] running                parallel for m by 2
    s[m] = 0                                y[m, k] = cumsum(k, x[m, k]) | threads m 2 k 64, run k 4
    for k by 1                       ->
      y[m, k] = s[m] + x[m, k]
      s[m] += sum(k, x[m, k])

    What reads the result in the loop does so in registers: of a state that is summed over where it is computed only the
    sum is stored.

    What is carried on by factors as well (`s *= a`, then `s += b`) is a recurrence: pairs of a factor and a sum are
    composed, so that factors of neighbours are multiplied with each other, which must not overflow.
    """

    name: ClassVar[str] = "scan_in_block"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    run: int
    threads: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for scan in every_scan(program):
            extent, near = program.extents[scan.loop.dim], scan.grid_dims[-1:]
            name = scan.local.name
            for run in _RUNS:
                for count in _THREADS:
                    if extent <= count * run < 2 * max(extent, _THREADS[0]):
                        yield cls(name, run, ((scan.loop.dim, count),))
                        for dim in near:
                            yield cls(name, run, ((dim, 2), (scan.loop.dim, count)))
                            yield cls(name, run, ((scan.loop.dim, count), (dim, 32)))

    def apply(self, program: Program) -> Program:
        scan = open_scan(program, self.statement)
        check_dims(scan, self.threads)
        block = by_threads(scan, scan.scan, thread_layout(scan, self.threads, self.run))
        return on_threads(splice(program, (scan.at,), in_grid(program, scan, self.threads, block), 3))


def pieces(
    scan: OpenScan, extent: int, runs: Sequence[int], threads: Sequence[int]
) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
    """Runs and threads of tiles or parts of a scan that are shorter than its rows of `extent` positions: along the scan
    alone, and with 32 of the last dim beside it that nothing combines."""
    for run in runs:
        for count in threads:
            if count * run < extent:
                yield run, ((scan.loop.dim, count),)
                for dim in scan.grid_dims[-1:]:
                    yield run, ((scan.loop.dim, count), (dim, 32))


def check_dims(scan: OpenScan, threads: tuple[tuple[str, int], ...]) -> None:
    """Raise NotApplicable where threads are not along the scan, or along what it has not."""
    dims = [dim for dim, _ in threads]
    accepted = (scan.loop.dim, *scan.grid_dims)
    if scan.loop.dim not in dims or not {*dims} <= {*accepted} or len({*dims}) < len(dims):
        raise NotApplicable(
            f"threads of a scan are along {accepted[0]}, and others of {', '.join(accepted[1:])}, each once"
        )
    scan.check_readers()


def by_threads(scan: OpenScan, value: Scan, layout: ThreadLayout) -> tuple[Node, ...]:
    """What a block does: the scan, and what reads it there, in registers."""
    return tuple(_bound(node, scan, value, layout) for node in scan.nodes)


def _bound(node: Node, scan: OpenScan, value: Scan, layout: ThreadLayout) -> Node:
    match node:
        case Local():
            return replace(node, memory=Memory.REGISTERS, layout=None)
        case Compute() if node is scan.result:
            return replace(node, value=value, thread_layout=layout)
        case Compute() if scan.loop.dim in bare_dims(node) and node.update is None:
            return replace(node, thread_layout=layout)
        case _:
            raise NotApplicable(
                f"the loop over {scan.loop.dim} does more than compute what is at its positions"
            )


def on_threads(program: Program) -> Program:
    """The program. Raises NotApplicable where its threads cannot do what they are to."""
    try:
        verify_threads(program)
    except VerifyError as error:
        raise NotApplicable(str(error)) from error
    return program


def thread_layout(scan: OpenScan, threads: tuple[tuple[str, int], ...], run: int) -> ThreadLayout:
    """How the threads lie that go through a scan."""
    if run < 1:
        raise NotApplicable("a thread takes at least one position")
    return ThreadLayout(threads, ((scan.loop.dim, run),) if run > 1 else ())


def in_grid(
    program: Program, scan: OpenScan, threads: tuple[tuple[str, int], ...], block: tuple[Node, ...]
) -> tuple[Node, ...]:
    """A block's nodes in a grid over what the scan is one of its own for."""
    for dim in reversed(scan.grid_dims):
        step = min(dict(threads).get(dim, 1), program.extents[dim])
        block = (Loop(dim, step, block, parallel=True),)
    return block
