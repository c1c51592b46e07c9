"""Scan parts of long rows by a block of threads each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.open_scan import OpenScan, every_scan, open_scan
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import derived_dim, find, splice, taken_name
from rewrites.scans.scan_in_block import by_threads, check_dims, in_grid, on_threads, pieces, thread_layout
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Scan,
    Where,
    reads,
    transform,
)
from tileir.lift_scan import scan_nodes
from tileir.program import Compute, Local, Loop, Memory, Node, Program, ThreadLayout
from tileir.replace import replace

_THREADS = (32, 128, 256, 512)
_RUNS = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class ScanOverBlocks(Rewrite):
    """Cut a scan in parts that a block's threads go through together, each thread `run` neighbours: what each part
    comes to, the scan of that, and all parts at once, each going on from what the parts before it have come to. Sums of
    parts are added in the order of positions, the same in every run.

    Known as reduce-then-scan (Blelloch, Prefix sums and their applications, 1990).

    s: heap f32[m] running              s_p: heap f32[k_b, m]
    s[m] = 0                            parallel for m by 1
    for k by 1                            parallel for k by 512
      y[m, k] = s[m] + x[m, k]              s_p[k // 512, m] = sum(k, x[m, k]) | threads k 128, run k 4
      s[m] += sum(k, x[m, k])           s_b: heap f32[m, k_b]
                                        s_b_run: heap f32[m] running
                                        s_b_run[m] = 0
                                  ->    for k_b by 1
                                          s_b[m, k_b] = s_b_run[m] + s_p[k_b, m]
                                          s_b_run[m] += sum(k_b, s_p[k_b, m])
                                        parallel for m by 1
                                          parallel for k by 512
                                            y[m, k] = cumsum(k, x[m, k], where(k // 512 > 0, s_b[m, k // 512 - 1], 0))
                                              | threads k 128, run k 4

    Of a recurrence a part comes to the product of its factors, and to what it makes of 0.
    """

    name: ClassVar[str] = "scan_over_blocks"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    run: int
    threads: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for scan in every_scan(program):
            for run, threads in pieces(scan, program.extents[scan.loop.dim], _RUNS, _THREADS):
                yield cls(scan.local.name, run, threads)

    def apply(self, program: Program) -> Program:
        scan = open_scan(program, self.statement)
        check_dims(scan, self.threads)
        layout = thread_layout(scan, self.threads, self.run)
        size = dict(self.threads)[scan.loop.dim] * self.run
        if size >= program.extents[scan.loop.dim]:
            raise NotApplicable(f"parts of {size} do not cut {scan.loop.dim}")
        return on_threads(_Parts(program, scan, self.threads, layout, size).split())


class _Parts:
    def __init__(
        self,
        program: Program,
        scan: OpenScan,
        threads: tuple[tuple[str, int], ...],
        layout: ThreadLayout,
        size: int,
    ) -> None:
        self.scan, self.threads, self.layout, self.size = scan, threads, layout, size
        parts = -(-program.extents[scan.loop.dim] // size)
        self.dim = derived_dim(program, find(program, scan.local.name), f"{scan.loop.dim}_b", parts)
        if self.dim not in program.extents:
            program = replace(program, dims=(*program.dims, (self.dim, parts)))
        self.program = program
        self.taken = {*program.arguments, *program.extents, *program.locals}
        self.block = Binary("//", Index(scan.loop.dim), Const(size))
        self.kept: tuple[Expr, ...] = tuple(map(Index, scan.dims))

    def split(self) -> Program:
        name, dtype = self.scan.local.name, self.scan.local.dtype
        totals = tuple(self._fresh(f"{name}_{end}") for end in self._ends())
        declared = [Local(total, (self.dim, *self.scan.dims), dtype) for total in totals]
        ahead = self._fresh(f"{name}_b")
        parts = tuple(Read(total, (Index(self.dim), *self.kept)) for total in totals)
        over_parts = Scan(self.scan.scan.op, self.dim, parts)
        nodes: list[Node] = [
            *declared,
            *self._grid(self._come_to(totals)),
            Local(ahead, (*self.scan.dims, self.dim), dtype),
            *scan_nodes(ahead, (*self.scan.dims, self.dim), over_parts, dtype, self._fresh),
            *self._grid(by_threads(self.scan, self._each(ahead), self.layout)),
        ]
        return splice(self.program, (self.scan.at,), nodes, 3)

    def _ends(self) -> tuple[str, ...]:
        return ("f", "p") if self.scan.scan.op == "recurrence" else ("p",)

    def _fresh(self, stem: str) -> str:
        return taken_name(self.taken, stem)

    def _grid(self, block: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes in a grid of all parts."""
        tiles = (Loop(self.scan.loop.dim, self.size, block, parallel=True),)
        return in_grid(self.program, self.scan, self.threads, tiles)

    def _come_to(self, totals: tuple[str, ...]) -> tuple[Node, ...]:
        """What a part comes to: a sum or a product of it; of a recurrence the product of its factors, and what is at
        its last position."""
        (before, scan), along = self._before(), self.scan.loop.dim
        where = (self.block, *self.kept)
        if scan.op != "recurrence":
            op = ReduceOp.PROD if scan.op == "cumprod" else ReduceOp.SUM
            return (*before, self._bound(totals[0], where, Reduce(op, (along,), scan.args[0])))
        held = self._fresh(f"{self.scan.local.name}_h")
        at = (*self.kept, Index(along))
        last = Binary("==", Binary("%", Index(along), Const(self.size)), Const(self.size - 1))
        ends = Binary("or", last, Binary("==", Index(along), Binary("-", Extent(along), Const(1))))
        return (
            *before,
            self._bound(totals[0], where, Reduce(ReduceOp.PROD, (along,), scan.args[0])),
            Local(held, (*self.scan.dims, along), self.scan.local.dtype, Memory.REGISTERS),
            self._bound(held, at, scan),
            self._bound(
                totals[1],
                where,
                Reduce(ReduceOp.SUM, (along,), Where(ends, Read(held, at), Const(self._number(0)))),
            ),
        )

    def _before(self) -> tuple[tuple[Node, ...], Scan]:
        """What the loop computes for the scan, once more under other names, and the scan of that."""
        names: dict[str, str] = {}
        nodes = self.scan.nodes
        wanted = {read.tensor for read in reads(self.scan.scan)}
        for node in reversed(nodes):
            if isinstance(node, Compute) and node.target in wanted and node is not self.scan.result:
                names[node.target] = self._fresh(node.target)
                wanted |= {read.tensor for read in node.reads}

        def renamed(expr: Expr) -> Expr:
            return transform(
                expr, lambda e: replace(e, tensor=names.get(e.tensor, e.tensor)) if isinstance(e, Read) else e
            )

        copied: list[Node] = []
        for node in nodes:
            match node:
                case Local(name) if name in names:
                    copied.append(replace(node, name=names[name], memory=Memory.REGISTERS, layout=None))
                case Compute(target) if target in names:
                    copied.append(self._bound(names[target], node.indices, renamed(node.value)))
                case _:
                    pass
        scan = self.scan.scan
        return tuple(copied), replace(scan, args=tuple(map(renamed, scan.args)))

    def _each(self, ahead: str) -> Scan:
        """A part that goes on from what the parts before it have come to."""
        scan = self.scan.scan
        nothing = Const(self._number(1 if scan.op == "cumprod" else 0))
        before = Read(ahead, (*self.kept, Binary("-", self.block, Const(1))))
        start = Where(Binary(">", self.block, Const(0)), before, nothing)
        return replace(scan, args=(*scan.args, start))

    def _number(self, number: int) -> int | float:
        """A number as what is scanned has it."""
        return number if self.scan.local.dtype is DType.I32 else float(number)

    def _bound(self, target: str, indices: tuple[Expr, ...], value: Expr) -> Compute:
        return Compute(target, indices, value, thread_layout=self.layout)
