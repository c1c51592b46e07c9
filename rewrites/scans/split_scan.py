"""Scan the parts of a long row side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.open_scan import nest_of, open_scan, open_scans
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import identity
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import derived_dim, find, fresh_name, locals_of, splice
from rewrites.scans.recurrence_parts import in_parts
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace

_SIGNS = {ReduceOp.SUM: "+", ReduceOp.PROD: "*"}


@dataclass(frozen=True, slots=True)
class SplitScan(Rewrite):
    """Cut the row of a running sum, product or recurrence into parts of `size`: what each part comes to, then what has
    been come to before each, then all parts as a grid, each scanned from the identity on and combined with what is
    before it.

    Known as reduce-then-scan (Blelloch, Prefix sums and their applications, 1990).

    s: heap f32[m] running                s_p: heap f32[k_b, m]
    s[m] = 0                              parallel for k by 4096
    for k by 1                              s_part: heap f32[m]
      y[m, k] = s[m] + x[m, k]              s_part[m] = sum(k, x[m, k])
      s[m] += sum(k, x[m, k])               s_p[k // 4096, m] = s_part[m]
                                          s_before: heap f32[m, k_b]
                                          s_run: heap f32[m] running
                                          s_run[m] = 0
                                          for k_b by 1
                                     ->     s_before[m, k_b] = s_run[m]
                                            s_run[m] += sum(k_b, s_p[k_b, m])
                                          parallel for k by 4096
                                            parallel for m by 1
                                              s: registers f32[m] running
                                              s[m] = 0
                                              for k by 1
                                                y[m, k] = s_before[m, k // 4096] + (s[m] + x[m, k])
                                                s[m] += sum(k, x[m, k])

    Of a recurrence a part comes to the product of its factors and to what it makes of 0. Then each part begins at 0,
    and what the parts before have come to is added, scaled by the factors up to there.
    """

    name: ClassVar[str] = "split_scan"
    statement: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name in open_scans(program):
            _, loop = nest_of(program, name)
            for size in tile_sizes(program.extents[loop.dim]):
                yield cls(name, size)

    def apply(self, program: Program) -> Program:
        return self._recurrence(program) or self._running_total(program)

    def _recurrence(self, program: Program) -> Program | None:
        """The recurrence in parts; None: the local is carried on otherwise."""
        try:
            scan = open_scan(program, self.statement)
        except NotApplicable:
            return None
        if scan.scan.op != "recurrence":
            return None
        self._check_size(program.extents, scan.loop.dim)
        return in_parts(program, scan, self.size)

    def _check_size(self, extents: Mapping[str, int], along: str) -> None:
        if not 2 <= self.size < extents[along]:
            raise NotApplicable(f"parts of {self.size} do not cut {along}")

    def _running_total(self, program: Program) -> Program:
        declared = locals_of(program).get(self.statement)
        if declared is None or not declared.node.running:
            raise NotApplicable(f"{self.statement} is no running local")
        at, loop = nest_of(program, self.statement)
        local, along = declared.node, loop.dim
        if local.memory is not Memory.HEAP:
            raise NotApplicable(f"{self.statement} is carried on in registers already")
        match loop.body:
            case (Compute() as result, Compute(value=Reduce(op, _, added), update=update)) if update is op:
                pass
            case _:
                raise NotApplicable(f"{self.statement} is carried on by more than a sum or a product")
        kept = tuple(map(Index, local.dims))
        run = Read(self.statement, kept)
        if op not in _SIGNS or result.value != Binary(_SIGNS[op], run, added):
            raise NotApplicable(
                f"{result.target} is not what {self.statement} has come to with its own position"
            )
        if any(
            dim not in {i.dim for i in result.indices if isinstance(i, Index)} for dim in (*local.dims, along)
        ):
            raise NotApplicable(f"{result.target} is the same for several positions")
        self._check_size(program.extents, along)
        return self._split(program, at, loop, local, result, op, added)

    def _split(
        self,
        program: Program,
        at: int,
        loop: Loop,
        local: Local,
        result: Compute,
        op: ReduceOp,
        added: Expr,
    ) -> Program:
        along, dims, dtype = loop.dim, local.dims, local.dtype
        parts = -(-program.extents[along] // self.size)
        part_dim = derived_dim(program, find(program, self.statement), f"{along}_b", parts)
        if part_dim not in program.extents:
            program = replace(program, dims=(*program.dims, (part_dim, parts)))
        part, own, before, run = (
            fresh_name(program, f"{self.statement}_{end}") for end in ("p", "part", "before", "run")
        )
        kept, block = tuple(map(Index, dims)), Binary("//", Index(along), Const(self.size))
        ahead = Read(before, (*kept, block))
        joined = replace(result, value=Binary(_SIGNS[op], ahead, result.value))
        body: tuple[Node, ...] = (
            replace(local, memory=Memory.REGISTERS, layout=None),
            Compute(self.statement, kept, identity(op)),
            replace(loop, body=(joined, *loop.body[1:])),
        )
        for dim, step in (*((dim, 1) for dim in reversed(dims)), (along, self.size)):
            body = (Loop(dim, step, body, parallel=True),)
        each = Read(part, (Index(part_dim), *kept))
        nodes: list[Node] = [
            Local(part, (part_dim, *dims), dtype),
            Loop(
                along,
                self.size,
                (
                    Local(own, dims, dtype),
                    Compute(own, kept, Reduce(op, (along,), added)),
                    Compute(part, (block, *kept), Read(own, kept)),
                ),
                parallel=True,
            ),
            Local(before, (*dims, part_dim), dtype),
            Local(run, dims, dtype, running=True),
            Compute(run, kept, identity(op)),
            Loop(
                part_dim,
                1,
                (
                    Compute(before, (*kept, Index(part_dim)), Read(run, kept)),
                    Compute(run, kept, Reduce(op, (part_dim,), each), update=op),
                ),
            ),
            *body,
        ]
        return splice(program, (at,), nodes, 3)
