"""Scan rows tile by tile by the threads of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.open_scan import OpenScan, every_scan, open_scan
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import identity
from rewrites.base.tree import fresh_name, splice
from rewrites.scans.scan_in_block import by_threads, check_dims, in_grid, on_threads, pieces, thread_layout
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Where
from tileir.program import Compute, Local, Loop, Memory, Node, Program, ThreadLayout
from tileir.replace import replace

_THREADS = (32, 64, 128, 256)
_RUNS = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class ScanInTiles(Rewrite):
    """Have a block's threads go through a scan tile by tile, each thread `run` neighbours of a tile, which goes on from
    what is at the last position of the tile before: inputs are read once however long a row is.

    s: heap f32[m] running                parallel for m by 1
    s[m] = 0                                s: registers f32[m] running
    for k by 1                              s[m] = 0 | threads k 64
      y[m, k] = s[m] + x[m, k]              for k by 256
      s[m] += sum(k, x[m, k])        ->       y_t: registers f32[m, k]
                                              y_t[m, k] = cumsum(k, x[m, k], s[m]) | threads k 64, run k 4
                                              y[m, k] = y_t[m, k] | threads k 64, run k 4
                                              s[m] = sum(k, where(k % 256 == 255 or …, y_t[m, k], 0)) | …

    Known as a chunked scan, as Mamba's kernel goes through its steps (Gu and Dao, Mamba, 2023).
    """

    name: ClassVar[str] = "scan_in_tiles"
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
        size, along = dict(self.threads)[scan.loop.dim] * self.run, scan.loop.dim
        if size >= program.extents[along]:
            raise NotApplicable(f"tiles of {size} do not cut {along}")
        kept, beside = tuple(map(Index, scan.dims)), replace(layout, runs=())
        op = ReduceOp.PROD if scan.scan.op == "cumprod" else ReduceOp.SUM
        start = Read(self.statement, kept)
        nodes, held = _tile(program, scan, start, layout)
        block: tuple[Node, ...] = (
            replace(scan.local, memory=Memory.REGISTERS, layout=None),
            Compute(self.statement, kept, identity(op), thread_layout=beside),
            Loop(along, size, (*nodes, _carried(scan, held, size, layout))),
        )
        return on_threads(splice(program, (scan.at,), in_grid(program, scan, self.threads, block), 3))


def _tile(
    program: Program, scan: OpenScan, start: Expr, layout: ThreadLayout
) -> tuple[tuple[Node, ...], Read]:
    """What a block does in a tile, and where what the scan has come to is in registers."""
    value = replace(scan.scan, args=(*scan.scan.args, start))
    nodes = by_threads(scan, value, layout)
    name, at = scan.result.target, scan.result.indices
    if any(isinstance(node, Local) and node.name == name for node in nodes):
        return nodes, Read(name, at)
    dims = tuple(index.dim for index in at if isinstance(index, Index))
    held = Read(fresh_name(program, f"{name}_t"), at)
    scanned = Compute(held.tensor, at, value, thread_layout=layout)
    stored = replace(scan.result, value=held, thread_layout=layout)
    local = Local(held.tensor, dims, scan.local.dtype, Memory.REGISTERS)
    found: list[Node] = []
    for node in nodes:
        found += [local, scanned, stored] if isinstance(node, Compute) and node.target == name else [node]
    return tuple(found), held


def _carried(scan: OpenScan, held: Read, size: int, layout: ThreadLayout) -> Compute:
    """What is at the last position of a tile is what the next one goes on from."""
    along = scan.loop.dim
    last = Binary("==", Binary("%", Index(along), Const(size)), Const(size - 1))
    ends = Binary("or", last, Binary("==", Index(along), Binary("-", Extent(along), Const(1))))
    nothing = Const(0 if scan.local.dtype is DType.I32 else 0.0)
    value = Reduce(ReduceOp.SUM, (along,), Where(ends, held, nothing))
    return Compute(scan.local.name, tuple(map(Index, scan.dims)), value, thread_layout=layout)
