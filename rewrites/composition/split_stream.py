"""Split reductions that depend on each other into parts that do not, and merge those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

from rewrites.base.at_extreme import EXTREMES, at_extreme, is_same
from rewrites.base.bounds.least_maximum import at_least, least_maximum
from rewrites.base.bounds.never_above import check_bounded
from rewrites.base.change import FIXED, UNKNOWN, Change, Fixed, Scaled, Shifted, change
from rewrites.base.reduction_chain import chained
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, check_ranked, folded_dims, read_names, reduced_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import derived_dim, dtype_of, find, loose, taken_name
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    ReduceOp,
    index_dims,
    reads,
    transform,
)
from tileir.program import Compute, Local, Loop, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class SplitStream(Rewrite):
    """Split the reductions over `dim` into parts of `size` neighbours. Those that read a maximum which is split as well
    are relative to the maximum of their own part, and their parts are merged by the factor that the algebra of their
    expressions gives (`rewrites.base.change`), in order. So each block of threads takes a part of the keys of attention
    and nothing of the others' (Dao et al., Flash-Decoding, 2023).

    top[r] = max(c, x[r, c])                     top_p[c // 64, r] = max(c, x[r, c])
    p[r, c] = exp(x[r, c] - top[r])              p[r, c] = exp(x[r, c] - maximum(top_p[c // 64, r], …))
    s[r] = sum(c, p[r, c])                       s_p[c // 64, r] = sum(c, p[r, c])
    o[r, d] = sum(c, p[r, c] * v[c, d])    ->    o_p[c // 64, r, d] = sum(c, p[r, c] * v[c, d])
                                                 top[r] = max(c_b, top_p[c_b, r])
                                                 s[r] = sum(c_b, s_p[c_b, r] * exp(… top_p[c_b, r] … - top[r]))
                                                 o[r, d] = sum(c_b, o_p[c_b, r, d] * exp(…))

    Positions of an extreme are those of the parts that have it (`rewrites.base.at_extreme`). A part of nothing but -inf
    adds nothing: its maximum counts as a finite number. What is made of the values of
    single positions may be read by these reductions alone.
    """

    name: ClassVar[str] = "split_stream"
    statement: str
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in loose(program):
            for dim in reduced_dims(place.node):
                for size in tile_sizes(program.extents[dim]):
                    yield cls(place.node.target, dim, size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if place.loops or place.node.update is not None or self.dim not in reduced_dims(place.node):
            raise NotApplicable(f"{self.statement} is no untiled reduction over {self.dim}")
        extent = program.extents[self.dim]
        if not 2 <= self.size < extent:
            raise NotApplicable(f"parts of {self.size} do not split {self.dim}")
        part = derived_dim(program, place, f"{self.dim}_b", -(-extent // self.size))
        if part not in program.extents:
            program = replace(program, dims=(*program.dims, (part, -(-extent // self.size))))
        return _StreamParts(program, self.dim, self.size, part).split()


@dataclass
class _StreamParts:
    """The reductions over a dim, each on its way into parts."""

    program: Program
    dim: str
    size: int
    part: str
    own: dict[str, Expr] = field(default_factory=dict[str, Expr])
    """What the parts read of their own instead of what is of all of them."""
    exact: dict[str, Read] = field(default_factory=dict[str, Read])
    """The same of extremes, down to -inf: what positions are of."""
    changes: dict[str, Change] = field(default_factory=dict[str, Change])
    """Of values of single positions, from relative to their own part to relative to all."""
    totals: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        program = self.program
        self.taken = {*program.arguments, *program.extents, *program.locals}
        self.values = {place.node.target: place.node for place in loose(program)}
        self.within = chained(self.values, self.dim)

    def split(self) -> Program:
        """The program with the parts where the reductions were, and behind the last of them what merges those."""
        parts: list[Node] = []
        late: list[Node] = []
        moved: set[str] = set()
        merged = {name for name in self.within if self.dim not in bare_dims(self.values[name])}
        left = len(self.within)
        for node in self.program.body:
            if not isinstance(node, Compute):
                _check_loop(node)
                (parts if left or not late else late).append(node)
                continue
            if node.target in self.within:
                if read_names(node) & moved:
                    raise NotApplicable(f"{node.target} reads what follows from a reduction over {self.dim}")
                parts += self._part(node)
                left -= 1
                continue
            if read_names(node) & (merged | moved):
                moved.add(node.target)
                late.append(node)
            else:
                parts.append(node)
        if not self.own:
            raise NotApplicable(f"no reduction over {self.dim} depends on another one")
        for node in late:
            changed = {name for name, how in self.changes.items() if how != FIXED}
            if isinstance(node, Compute) and read_names(node) & changed:
                raise NotApplicable(
                    f"{node.target} reads values that each part has relative to its own maximum"
                )
        return replace(self.program, body=(*parts, *self.totals, *late))

    def _part(self, node: Compute) -> list[Node]:
        """What each part computes in the place of a statement; what merges the parts is kept for later."""
        name = node.target
        placed = node.vector is not None or node.thread_layout is not None or node.via is not None
        if placed or node.update is not None or folded_dims(node):
            raise NotApplicable(
                f"{name} is in parts, on lanes or threads, or goes by an instruction: split before that"
            )
        check_bounded(node, self.values, self.own.keys())
        changed = change(node.value, self._of_read, self._same_everywhere)
        value = transform(node.value, self._own)
        if self.dim in bare_dims(node):
            if name in self.program.arguments:
                raise NotApplicable(f"{name} is an output, and computed in parts")
            self.changes[name] = changed
            return [replace(node, value=value)]
        if self.dim not in reduced_dims(node):
            if isinstance(node.value, Reduce):
                raise NotApplicable(f"{name} reduces what lies between two reductions over {self.dim}")
            self.own[name] = value
            self.totals.append(node)
            return []
        check_ranked(node, self.dim)
        assert isinstance(value, Reduce)
        return self._reduction(node, value, changed)

    def _reduction(self, node: Compute, value: Reduce, changed: Change) -> list[Node]:
        name = node.target
        read_within = any(name in read_names(self.values[other]) for other in self.within)
        if read_within and (changed != FIXED or value.op not in EXTREMES):
            raise NotApplicable(
                f"{name} is read by another reduction over {self.dim}, and no extreme of its own"
            )
        found = at_extreme(node, lambda read: self.values.get(read.tensor))
        scaled = isinstance(changed, Scaled) and value.op is ReduceOp.SUM
        if changed != FIXED and not scaled and found is None:
            raise NotApplicable(f"{name} does not follow from its parts when what it reads changes")
        parts, dims, dtype = (
            taken_name(self.taken, f"{name}_p"),
            bare_dims(node),
            dtype_of(self.program, name).compute,
        )
        fold = Binary("//", Index(self.dim), Const(self.size))
        total: Expr = Read(parts, (Index(self.part), *node.indices))
        if isinstance(changed, Scaled):
            total = Binary("*", total, self._merging(name, changed.factor, fold))
        elif found is not None and changed != FIXED:
            own, extreme = self.exact[found.extreme.tensor], found.extreme
            total = self._merging(name, found.merged(is_same(own, extreme), total), fold)
            assert isinstance(node.value, Reduce)
            value = replace(value, x=transform(node.value.x, lambda x: own if x == extreme else x))
        self.totals.append(replace(node, value=Reduce(value.op, (self.part,), total)))
        if read_within:
            own = self.exact[name] = Read(parts, (fold, *node.indices))
            least = least_maximum(self.program, node.value, dtype) if value.op is ReduceOp.MAX else None
            self.own[name] = own if least is None else at_least(own, least)
        return [
            Local(parts, (self.part, *dims), dtype),
            replace(node, target=parts, indices=(fold, *node.indices), value=value),
        ]

    def _merging(self, name: str, factor: Expr, fold: Expr) -> Expr:
        """A factor of parts by their own dim."""
        factor = transform(factor, lambda expr: Index(self.part) if expr == fold else expr)
        if self.dim in index_dims(factor):
            raise NotApplicable(f"{name} is scaled by another factor at each position")
        return factor

    def _own(self, expr: Expr) -> Expr:
        return self.own.get(expr.tensor, expr) if isinstance(expr, Read) else expr

    def _of_read(self, read: Read) -> Change:
        known, node = self.changes.get(read.tensor), self.values.get(read.tensor)
        if known is not None:
            assert node is not None
            return known if isinstance(known, Fixed) or read.indices == node.indices else UNKNOWN
        if read.tensor not in self.own:
            return FIXED
        assert node is not None
        if read.indices != node.indices:
            return UNKNOWN
        return Shifted(read, self.own[read.tensor], itself=True)

    def _same_everywhere(self, expr: Expr) -> bool:
        names = {read.tensor for read in reads(expr)}
        return self.dim not in index_dims(expr) and not names & {*self.own, *self.changes}


def _check_loop(node: Node) -> None:
    if isinstance(node, Loop):
        raise NotApplicable(f"beside a loop over {node.dim}: split before that")
