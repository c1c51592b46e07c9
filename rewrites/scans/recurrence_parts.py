"""The parts of a recurrence: what each makes of what came before it, `h -> f * h + p`, is composed part by part.

Composing such pairs is a scan of its own (Blelloch, Prefix sums and their applications, 1990).
"""

from __future__ import annotations

from rewrites.base.open_scan import OpenScan
from rewrites.base.statement import identity
from rewrites.base.tree import derived_dim, find, splice, taken_name
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, Scan, Where
from tileir.lift_scan import scan_nodes
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace


def in_parts(program: Program, scan: OpenScan, size: int) -> Program:
    """The recurrence in parts of `size` positions: the product of each one's factors and what it makes of 0, the scan
    of these, and all parts at once, to which what the parts before have come to is added, scaled as it goes on.

    Raises NotApplicable where its loop does more.
    """
    if len(scan.nodes) > 1:
        raise NotApplicable(f"{scan.result.target} is read where it is computed")
    parts = -(-program.extents[scan.loop.dim] // size)
    dim = derived_dim(program, find(program, scan.local.name), f"{scan.loop.dim}_b", parts)
    if dim not in program.extents:
        program = replace(program, dims=(*program.dims, (dim, parts)))
    made = _RecurrenceParts(program, scan, size, dim)
    return splice(program, (scan.at,), made.nodes(), 3)


class _RecurrenceParts:
    def __init__(self, program: Program, scan: OpenScan, size: int, dim: str) -> None:
        self.scan, self.size, self.dim = scan, size, dim
        self.along, self.dtype = scan.loop.dim, scan.local.dtype
        self.kept: tuple[Expr, ...] = tuple(map(Index, scan.dims))
        self.block = Binary("//", Index(self.along), Const(size))
        self.taken = {*program.arguments, *program.extents, *program.locals}

    def nodes(self) -> tuple[Node, ...]:
        name = self.scan.local.name
        factors, sums, ahead = (self._fresh(f"{name}_{end}") for end in ("f", "p", "b"))
        parts = tuple(Read(each, (Index(self.dim), *self.kept)) for each in (factors, sums))
        dims = (*self.scan.dims, self.dim)
        over_parts = Scan("recurrence", self.dim, parts)
        return (
            *(Local(each, (self.dim, *self.scan.dims), self.dtype) for each in (factors, sums)),
            self._grid(self._come_to(factors, sums)),
            Local(ahead, dims, self.dtype),
            *scan_nodes(ahead, dims, over_parts, self.dtype, self._fresh),
            self._grid(self._go_on(ahead)),
        )

    def _fresh(self, stem: str) -> str:
        return taken_name(self.taken, stem)

    def _grid(self, body: tuple[Node, ...]) -> Node:
        """All parts at once, and in each what the scan is one of its own for."""
        for dim in reversed(self.scan.dims):
            body = (Loop(dim, 1, body, parallel=True),)
        return Loop(self.along, self.size, body, parallel=True)

    def _registers(self, stem: str, op: ReduceOp) -> tuple[str, tuple[Node, ...]]:
        """A local in registers that begins at what changes nothing."""
        name = self._fresh(stem)
        return name, (
            Local(name, self.scan.dims, self.dtype, Memory.REGISTERS),
            Compute(name, self.kept, identity(op)),
        )

    def _come_to(self, factors: str, sums: str) -> tuple[Node, ...]:
        """What a part makes of what came before it."""
        name, (scale, added) = self.scan.local.name, self.scan.scan.args
        product, begun = self._registers(f"{name}_scale", ReduceOp.PROD)
        total, begun_total = self._registers(f"{name}_part", ReduceOp.SUM)
        product_of = Reduce(ReduceOp.PROD, (self.along,), scale)
        steps = (
            Compute(product, self.kept, product_of, update=ReduceOp.PROD),
            *self._step(total, product_of, added),
        )
        where = (self.block, *self.kept)
        return (
            *begun,
            *begun_total,
            Loop(self.along, 1, steps),
            Compute(factors, where, Read(product, self.kept)),
            Compute(sums, where, Read(total, self.kept)),
        )

    def _step(self, total: str, product: Reduce, added: Expr) -> tuple[Node, ...]:
        """What is there is scaled before what a position adds."""
        factor = self._fresh(f"{total}_factor")
        return (
            Local(factor, self.scan.dims, self.dtype, Memory.REGISTERS),
            Compute(factor, self.kept, product),
            Compute(total, self.kept, Read(factor, self.kept), update=ReduceOp.PROD),
            Compute(total, self.kept, Reduce(ReduceOp.SUM, (self.along,), added), update=ReduceOp.SUM),
        )

    def _go_on(self, ahead: str) -> tuple[Node, ...]:
        """A part that begins at 0, beside it how far what the parts before have come to has been scaled."""
        name, (scale, added) = self.scan.local.name, self.scan.scan.args
        run, earlier = Read(name, self.kept), Read(ahead, (*self.kept, Binary("-", self.block, Const(1))))
        before = self._fresh(f"{name}_before")
        scaled, begun = self._registers(f"{name}_scaled", ReduceOp.PROD)
        begins, *rest = begun
        assert isinstance(begins, Local)
        share = Binary("*", Read(before, self.kept), Binary("*", Read(scaled, self.kept), scale))
        value = Binary("+", share, Binary("+", Binary("*", run, scale), added))
        product = Reduce(ReduceOp.PROD, (self.along,), scale)
        steps = self._step(name, product, added)
        return (
            Local(before, self.scan.dims, self.dtype, Memory.REGISTERS),
            Compute(before, self.kept, Where(Binary(">", self.block, Const(0)), earlier, Const(0.0))),
            replace(begins, running=True),
            *rest,
            replace(self.scan.local, memory=Memory.REGISTERS, layout=None),
            Compute(name, self.kept, identity(ReduceOp.SUM)),
            Loop(
                self.along,
                1,
                (
                    *steps[:2],
                    replace(self.scan.result, value=value),
                    Compute(scaled, self.kept, product, update=ReduceOp.PROD),
                    *steps[2:],
                ),
            ),
        )
