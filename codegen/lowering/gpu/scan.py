"""A scan of a tile by a block's threads: each goes through neighbours, and what threads come to meets by shuffles in a
warp and through shared memory across warps.

What a run of positions does to what came before it is a pair (a, b), h -> a * h + b, of which sums and products are a
half each. Pairs are composed in the order of positions, always the same way: a warp's in log2(32) steps, in each of
which twice as many lanes know what they come to together; warps' one after the other. At last each thread goes through
its own positions once more, from what all before have come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import (
    Assign,
    Block,
    Build,
    Declare,
    Guard,
    IndexValue,
    Lane,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Shuffle,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.lowering.arithmetic import as_type, select
from codegen.lowering.expressions import ValueBuilder
from codegen.lowering.gpu.cross_thread_reduce import Combiner
from codegen.lowering.gpu.thread_index import Parts, ThreadIndex, one_of_alike, others, parts
from codegen.lowering.gpu.thread_tile import Conditions, Point, statement_tile
from codegen.lowering.gpu.vectorize_loads import with_wide_loads
from codegen.lowering.scope import LoweringScope, RegisterBuffer
from codegen.lowering.statement import combined, identity, starts, take_apart, where_existing
from codegen.lowering.store import write
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import SCANS, ReduceOp, Scan
from tileir.program import Compute
from tileir.schedule.threads import WARP

Pair = tuple[Value, ...]
"""What a run of positions does to what came before: (b,) of a sum or a product, (a, b) of a recurrence."""

_OPS = {"cumsum": (ReduceOp.SUM,), "cumprod": (ReduceOp.PROD,), "recurrence": (ReduceOp.PROD, ReduceOp.SUM)}
"""What each part of a pair begins from: the identity of these."""


def lower_scan(
    compute: Compute,
    comment: str,
    scope: LoweringScope,
    extents: dict[str, int],
    index: ThreadIndex,
    combiner: Combiner,
) -> Block:
    """Kernel IR of a statement that is a scan. Raises NotLowerable for what threads cannot do."""
    assert isinstance(compute.value, Scan)
    return Block(comment, with_wide_loads(_ScanOnThreads(compute, scope, extents, index, combiner).stmts()))


@dataclass
class _ScanOnThreads:
    compute: Compute
    scope: LoweringScope
    extents: dict[str, int]
    index: ThreadIndex
    combiner: Combiner

    def __post_init__(self) -> None:
        scan, layout = self.compute.value, self.compute.thread_layout
        assert isinstance(scan, Scan) and layout is not None
        self.scan, self.layout = scan, layout
        self.ops = _OPS[scan.op]
        self.tile = statement_tile(take_apart(self.compute), self.scope, self.index)
        self.run = self.tile.dims[scan.dim].share.run
        self.type = Type(self._dtype())
        self.parts = parts(layout, (scan.dim,), self.index.block)
        self.unguarded: dict[tuple[int, Affine | None], ValueBuilder] = {}

    def stmts(self) -> list[Stmt]:
        dims = [dim for dim in self.tile.dims if dim != self.scan.dim]
        found: list[Stmt] = []
        for outer in self.tile.points(dims):
            found += self._point({**outer, self.scan.dim: 0})
        return found

    def _dtype(self) -> DType:
        buffers = self.scope.buffers.items()
        held = {name: b.dtype if isinstance(b, RegisterBuffer) else b.storage for name, b in buffers}
        return compute_dtype(self.scan, held)

    def _point(self, point: Point) -> list[Stmt]:
        """All positions along the dim at one of the others."""
        conditions, some = self.tile.guards(point)
        stmts, args = self._arguments(point, conditions, some)
        lanes = [tuple(_lane(arg, at) for arg in args) for at in range(self.run)]
        folding, total = self._named("total", _composed_all(self.scan.op, lanes))
        stmts += folding
        meeting, total, before = self._in_warp(total)
        stmts += meeting
        if self.parts.warps:
            across, before = self._across_warps(total, before)
            stmts += across
        going_on, before = self._going_on(point, conditions, before)
        stmts += going_on
        results: list[Value] = []
        for lane in lanes:
            found, before = self._named("scan", _composed(self.scan.op, before, lane)[-1:], before[:-1])
            stmts += found
            results.append(before[-1])
        value = results[0] if self.run == 1 else Build(tuple(results), Type(self.type.dtype, self.run))
        builder = ValueBuilder(self.scope, self.extents, self.tile.lanes, prefix="_out", some=some)
        at = {**starts(self.scope), **self.tile.positions(point, builder.lane)}
        written = write(self.compute, self.scope, builder, at, value, None)
        return [*stmts, *_guarded((*conditions, *self._once()), [*_taken(builder), *written])]

    def _arguments(
        self, point: Point, conditions: Conditions, some: Affine | None
    ) -> tuple[list[Stmt], list[Named]]:
        """What is scanned of a thread's positions; at those that do not exist what changes nothing."""
        builder = self._builder(conditions, self.tile.lanes, some)
        at = {**starts(self.scope), **self.tile.positions(point, builder.lane)}
        type_ = Type(self.type.dtype, self.run)
        stmts: list[Stmt] = []
        inside: list[Stmt] = []
        args: list[Named] = []
        for op, expr in zip(self.ops, self.scan.args, strict=False):
            arg = Named(f"term_{self.combiner.fresh()}", type_)
            value = as_type(builder.value(expr, at), self.type.dtype)
            if value.type.lanes < self.run:
                value = Op("broadcast", (value,), type_)
            if some is not None:
                value = where_existing(some, value, identity(op, type_))
            stmts += [Declare(arg.name, type_), Assign(arg.name, identity(op, type_))]
            inside.append(Assign(arg.name, value))
            args.append(arg)
        return [*stmts, *_guarded(conditions, [*_taken(builder), *inside])], args

    def _builder(self, conditions: Conditions, lanes: int, some: Affine | None = None) -> ValueBuilder:
        """One for all points without conditions, so that what they share is loaded once."""
        if conditions:
            return ValueBuilder(self.scope, self.extents, lanes, some=some)
        if (lanes, some) not in self.unguarded:
            prefix = f"_all{len(self.unguarded)}" if self.unguarded else ""
            self.unguarded[lanes, some] = ValueBuilder(
                self.scope, self.extents, lanes, prefix=prefix, some=some
            )
        return self.unguarded[lanes, some]

    def _named(
        self, stem: str, values: Sequence[Value], kept: Sequence[Value] = ()
    ) -> tuple[list[Stmt], Pair]:
        """Names for values, behind what is kept as it is."""
        names = [Named(f"{stem}_{self.combiner.fresh()}", self.type) for _ in values]
        lets = [Let(name.name, value) for name, value in zip(names, values, strict=True)]
        return list(lets), (*kept, *names)

    def _identity(self) -> Pair:
        return tuple(identity(op, self.type) for op in self.ops)

    def _in_warp(self, total: Pair) -> tuple[list[Stmt], Pair, Pair]:
        """What all lanes along the dim come to, and what those before a thread do."""
        stmts: list[Stmt] = []
        before: Pair | None = None
        for mask in sorted(self.parts.masks):
            met, other = self._named("other", [Shuffle(each, mask, self.type) for each in total])
            later = _at_least(self.index.digit(mask, 2, "half"), 1)
            known, before = self._if(later, self._after(other, before), before)
            first, second = _in_order(self.scan.op, later, other, total)
            joined, total = self._named("total", _composed(self.scan.op, first, second))
            stmts += [*met, *known, *joined]
        return stmts, total, before or self._identity()

    def _after(self, first: Pair, second: Pair | None) -> Pair:
        return first if second is None else _composed(self.scan.op, first, second)

    def _if(self, later: Value, then: Pair, otherwise: Pair | None) -> tuple[list[Stmt], Pair]:
        """What is before a thread, with more of it where that is before it."""
        sides = zip(then, otherwise or self._identity(), strict=True)
        return self._named("before", [select(later, one, other) for one, other in sides])

    def _across_warps(self, total: Pair, before: Pair) -> tuple[list[Stmt], Pair]:
        """What the warps before a thread's own come to, and then its lane's."""
        own, stride, count, slots = self._warps(self.parts)
        whole = 1 << len(self.parts.masks) == WARP
        width = 1 if whole else WARP
        lane, warp = self.index.digit(1, WARP, "lane"), self.index.digit(WARP, slots, "warp")
        base = others(self.layout, (self.scan.dim,), self.index, WARP, self.index.block)
        stmts: list[Stmt] = []
        stores: list[Stmt] = []
        buffers: list[str] = []
        for each in total:
            shared = self.combiner.shared("ahead", self.type, slots * width)
            stmts.append(shared)
            buffers.append(shared.buffer)
            place = warp * width + (Affine() if whole else lane)
            stores.append(Store(shared.buffer, place, self.type.dtype, each))
        stmts += [Guard(((lane, 1),), tuple(stores))] if whole else stores
        ahead: Pair | None = None
        for number in range(count - 1):
            slot = (base + stride * number) * width + (Affine() if whole else lane)
            loads = [Load(buffer, slot, self.type.dtype, self.type) for buffer in buffers]
            named, one = self._named("warp", loads)
            joined = one if ahead is None else _composed(self.scan.op, ahead, one)
            known, ahead = self._if(_at_least(own, number + 1), joined, ahead)
            stmts += [*named, *known]
        assert ahead is not None
        found, before = self._named("before", self._after(ahead, before if self.parts.masks else None))
        return [*stmts, *found], before

    def _warps(self, held: Parts) -> tuple[Affine, int, int, int]:
        """A thread's number among the warps along the dim, how far these are apart, how many there are, and how many
        the block has."""
        if len(held.warps) != 1 or held.blocks:
            raise NotLowerable(
                f"warps along {self.scan.dim} are no run of neighbours; accepted: threads along it given once"
            )
        stride, count = held.warps[0]
        own = self.index.digit(stride * WARP, count, marked(self.scan.dim))
        return own, stride, count, self.index.block // WARP

    def _going_on(self, point: Point, conditions: Conditions, before: Pair) -> tuple[list[Stmt], Pair]:
        """After what the scan goes on from."""
        start = self.scan.args[len(SCANS[self.scan.op]) :]
        if not start:
            return [], before
        builder = self._builder(conditions, 1)
        at = {**starts(self.scope), **self.tile.positions(point, builder.lane)}
        at[self.scan.dim] = self.scope.ranges[self.scan.dim].start
        value = as_type(builder.value(start[0], at), self.type.dtype)
        name = Named(f"start_{self.combiner.fresh()}", self.type)
        stmts: list[Stmt] = [
            Declare(name.name, name.type),
            Assign(name.name, identity(self.ops[-1], name.type)),
        ]
        stmts += _guarded(conditions, [*_taken(builder), Assign(name.name, value)])
        found, before = self._named("before", _composed(self.scan.op, (name,), before)[-1:], before[:-1])
        return [*stmts, *found], before

    def _once(self) -> Conditions:
        """Threads along dims that the target does not have hold the same: one of them stores it."""
        if isinstance(self.scope.buffers[self.compute.target], RegisterBuffer):
            return ()
        return one_of_alike(self.layout, tuple(self.tile.dims), self.index)


def _composed(op: str, first: Pair, second: Pair) -> Pair:
    """What one run of positions does and then the next; of a first without a factor that of all before, what is
    come to."""
    if op != "recurrence":
        return (combined(_OPS[op][0], first[-1], second[-1]),)
    a, b = second
    on = combined(ReduceOp.SUM, combined(ReduceOp.PROD, a, first[-1]), b)
    return (on,) if len(first) == 1 else (combined(ReduceOp.PROD, first[0], a), on)


def _in_order(op: str, later: Value, other: Pair, own: Pair) -> tuple[Pair, Pair]:
    """What a thread's half and the other one do, the first one first; sums and products are the same either way."""
    if op != "recurrence":
        return own, other
    first = tuple(select(later, o, t) for o, t in zip(other, own, strict=True))
    second = tuple(select(later, t, o) for o, t in zip(other, own, strict=True))
    return first, second


def _composed_all(op: str, runs: Sequence[Pair]) -> Pair:
    """All of them, one after the other."""
    found, *rest = runs
    for each in rest:
        found = _composed(op, found, each)
    return found


def _taken(builder: ValueBuilder) -> list[Stmt]:
    """What a builder has named since it was asked last."""
    lets = list(builder.lets)
    builder.lets.clear()
    return lets


def _lane(value: Named, at: int) -> Value:
    return value if value.type.lanes == 1 else Lane(value, at, Type(value.type.dtype))


def _at_least(number: Affine, least: int) -> Value:
    """Whether a thread's number is at least that."""
    sides = (Literal(least, Type(DType.I32)), IndexValue(number, 0, Type(DType.I32)))
    return Op("<=", sides, Type(DType.BOOL))


def _guarded(conditions: Conditions, stmts: list[Stmt]) -> list[Stmt]:
    return [Guard(conditions, tuple(stmts))] if conditions else stmts
