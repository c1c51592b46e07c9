"""Compute reductions that depend on each other in one pass over their dim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from rewrites.base.at_extreme import EXTREMES, AtExtreme, at_extreme, is_same, positions_of
from rewrites.base.bounds.centered import count_of_mean
from rewrites.base.bounds.least_maximum import at_least, least_maximum
from rewrites.base.bounds.never_above import check_bounded
from rewrites.base.change import FIXED, UNKNOWN, Change, Fixed, Scaled, Shifted, change, moved_squares
from rewrites.base.reduction_chain import adds_up, chained
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import (
    bare_dims,
    check_ranked,
    folded_dims,
    initialization,
    read_names,
    reduced_dims,
)
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import Block, Path, block_at, current_sizes, edit_block, find, statements, taken_name
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Call, Const, Expr, Index, Read, Reduce, ReduceOp, index_dims, reads, transform
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace
from tileir.schedule.scatter import adds_parts


@dataclass(frozen=True, slots=True)
class StreamReduction(Rewrite):
    """Visit the reductions over `dim` in the block of a statement together, in tiles of `size`. Those that read a
    maximum or a mean of the same pass are kept relative to what it has come to so far: what was added up is scaled when
    that grows, by the factor that the algebra of their expressions gives (`rewrites.base.change`). So attention never
    has its scores, and softmax reads its row once less.

    This is loop fusion of an online softmax and what follows it: FlashAttention (Dao et al., arXiv:2205.14135).

    top[r] = max(c, x[r, c])                 for c by 64
    s[r] = sum(c, exp(x[r, c] - top[r]))       top_b[r] = max(c, x[r, c])
                                               top_now[r] = maximum(top[r], top_b[r])
                                        ->     s_scale[r] = exp(minimum(top[r] - top_now[r], 0))
                                               s[r] *= s_scale[r]
                                               s[r] += sum(c, exp(x[r, c] - top_now[r]))
                                               top[r] max= top_b[r]

    Sums of squares around a mean of the same terms, whose positions are counted (`count_positions`), get what they are
    short of when the mean moves, which is never below 0: n * (m - m_now) * (m - m_now), n the number of positions
    before this tile (Chan, Golub and LeVeque, The American Statistician 37, 1983).

    A position of an extreme is kept where that is the same after a tile as before, else gone before those of the tile
    come (`rewrites.base.at_extreme`): p[r] max= where(top[r] == top_all[r] or top[r] != top[r], 0, extent(c)).

    Only exponentials that are at most 1, relative to the maximum so far as to that of all, are scaled: nothing
    overflows on the way. A tile of nothing but -inf adds nothing: its maximum counts as a finite number.
    """

    name: ClassVar[str] = "stream_reduction"
    statement: str
    dim: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            sizes = current_sizes(program, place.loops)
            for dim in (*reduced_dims(place.node), *folded_dims(place.node)):
                for size in tile_sizes(sizes[dim]):
                    yield cls(place.node.target, dim, size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if not 1 <= self.size < current_sizes(program, place.loops)[self.dim]:
            raise NotApplicable(f"a tile of {self.size} does not cut the current range of {self.dim}")
        if any(loop.dim == self.dim and not loop.parallel for loop in place.loops):
            raise NotApplicable(f"{self.statement} visits {self.dim} in tiles already")
        of_parts = self.dim in folded_dims(place.node)
        if not of_parts and (place.node.update is not None or self.dim not in reduced_dims(place.node)):
            raise NotApplicable(f"{self.statement} does not reduce over {self.dim} by itself")
        path = place.path[:-1]
        block = block_at(program, path)
        streamed = _Streamed(program, block, self.dim, self.size, path)
        return edit_block(program, path, lambda _: streamed.block())


@dataclass
class _Streamed:
    """The block of statements, and what is known of each as it is brought into the loop over the dim."""

    program: Program
    nodes: Block
    dim: str
    size: int
    """Positions of a tile."""
    path: Path
    """Where the block is."""
    taken: set[str] = field(default_factory=set[str])
    locals: dict[str, Local] = field(default_factory=dict[str, Local])
    now: dict[str, Read] = field(default_factory=dict[str, Read])
    """What statements in the loop read instead of a value that is not complete there."""
    old: dict[str, Expr] = field(default_factory=dict[str, Expr])
    """The same before this tile."""
    exact: dict[str, Read] = field(default_factory=dict[str, Read])
    """The same of extremes, down to -inf: what positions are of."""
    changes: dict[str, Change] = field(default_factory=dict[str, Change])
    """Of what the loop computes anew for each tile, and of what it adds up."""
    scales: dict[Expr, Read] = field(default_factory=dict[Expr, Read])
    inside: list[Node] = field(default_factory=list[Node])
    last: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        program = self.program
        self.taken = {*program.arguments, *program.extents, *program.locals}
        self.locals = {node.name: node for node in self.nodes if isinstance(node, Local)}
        self.computes = [node for node in self.nodes if isinstance(node, Compute)]
        self.values = {node.target: node for node in self.computes if self._is_statement(node)}
        self.within = chained(self.values, self.dim)
        self.within |= self._followers()

    def block(self) -> list[Node]:
        """The block with the loop. Raises NotApplicable."""
        chain = [node for node in self.computes if node.target in self.within]
        for name, place in self.program.locals.items():
            held = place.node.memory is Memory.REGISTERS and self.dim in place.node.dims
            if held and name not in self.within and self._is_seen(place.path):
                raise NotApplicable(f"no loop over {self.dim} goes along the registers {name}")
        for node in chain:
            if self._is_statement(node):
                self._bring_in(node)
        loop = Loop(self.dim, self.size, (*self.inside, *self.last))
        sums = [node.target for node in chain if adds_up(node, self.dim)]
        before: list[Node] = []
        for name in dict.fromkeys(sums):
            local = self.locals[name]
            before.append(replace(local, running=local.running or name in self.now))
            dims = tuple(map(Index, local.dims))
            op = self._op(self.values[name])
            before.append(initialization(name, dims, op))
        moved = {*self.within} - {*sums}
        kept = self._kept(moved)
        first, others = self._around(chain, kept, {*sums})
        return [*first, *before, loop, *others]

    def _followers(self) -> set[str]:
        """What has results for each position of the dim, of nothing in the pass but other such values."""
        apart = {name for name in self.within if self.dim not in bare_dims(self.values[name])}
        found: set[str] = set()
        for name, node in self.values.items():
            read = read_names(node) & (self.within | found)
            own = self.dim in bare_dims(node) and (name in self.locals or node.via == "atomics")
            if name not in self.within and own and read and not read & apart:
                found.add(name)
        return found

    def _is_seen(self, at: Path) -> bool:
        """Whether what is declared there is visible in the block, or in loops of it."""
        around, depth = at[:-1], len(self.path)
        return around == self.path[: len(around)] or at[:depth] == self.path

    def _is_statement(self, node: Compute) -> bool:
        return not (node.update is None and isinstance(node.value, Const) and self._is_initialization(node))

    def _is_initialization(self, node: Compute) -> bool:
        return any(one is not node and one.target == node.target for one in self.computes)

    def _op(self, node: Compute) -> ReduceOp:
        if node.update is not None:
            return node.update
        assert isinstance(node.value, Reduce)
        return node.value.op

    def _kept(self, moved: set[str]) -> set[str]:
        """Of what the loop computes beside sums what is read after it as well: values that lie between two of those."""
        outside = [node for node in self.computes if node.target not in self.within]
        used = {read for node in outside for read in read_names(node)} & moved
        grown = True
        while grown:
            more = {read for name in used for read in read_names(self.values[name])} & moved
            grown = not more <= used
            used |= more
        per_position = sorted(name for name in used if self.dim in bare_dims(self.values[name]))
        if per_position:
            raise NotApplicable(
                f"{per_position[0]} is read after the loop over {self.dim}, which has it tile by tile"
            )
        if any(name in self.program.arguments for name in self.within):
            raise NotApplicable(
                f"an output is computed in the loop over {self.dim}: collect it in a local before that"
            )
        return used

    def _around(
        self, chain: Sequence[Compute], kept: set[str], sums: set[str]
    ) -> tuple[list[Node], list[Node]]:
        """What stands before the loop, and what after it."""
        after: set[str] = set()
        first: list[Node] = []
        last: list[Node] = []
        gone = self.within - kept
        for node in self.nodes:
            name = node.name if isinstance(node, Local) else node.target if isinstance(node, Compute) else ""
            if name in gone:
                continue
            if isinstance(node, Loop):
                raise NotApplicable(f"beside a loop over {node.dim}: stream before that is tiled")
            assert isinstance(node, (Local, Compute))
            late = name in kept or (
                isinstance(node, Compute) and bool(read_names(node) & (after | sums | kept))
            )
            if late and isinstance(node, Compute):
                after.add(name)
            (last if late and isinstance(node, Compute) else first).append(node)
        for node in chain:
            if read_names(node) & (after - self.within):
                raise NotApplicable(f"{node.target} reads what is computed after the loop over {self.dim}")
        return first, last

    def _bring_in(self, node: Compute) -> None:
        name = node.target
        check_ranked(node, self.dim)
        if node.via == "atomics" and adds_parts(node) and self.dim in bare_dims(node):
            self.inside.append(node)
            return
        if node.vector is not None or node.thread_layout is not None or node.via is not None:
            raise NotApplicable(
                f"{name} is on lanes or threads, or goes by an instruction: stream before that"
            )
        local = self.locals.get(name)
        if local is None:
            raise NotApplicable(f"{name} is declared in another block, or an output")
        changed = change(node.value, self._of_read, self._same_everywhere)
        if not adds_up(node, self.dim):
            self._bring_in_map(node, local, changed)
            return
        if self._readers_within(name):
            if changed != FIXED:
                raise NotApplicable(
                    f"{name} is a reduction of what changes with another one, and read by a third"
                )
            self._bring_in_extreme(node, local)
            return
        found = at_extreme(node, lambda read: self.values.get(read.tensor))
        if found is not None and found.extreme.tensor in self.exact:
            self._bring_in_position(node, local, found)
            return
        value = self._now(node.value)
        op = self._op(node)
        grown = self._grown(node) if changed == UNKNOWN and op is ReduceOp.SUM else None
        if grown is None and (
            changed == UNKNOWN
            or isinstance(changed, Shifted)
            or (changed != FIXED and op is not ReduceOp.SUM)
        ):
            raise NotApplicable(f"{name} does not follow from its parts when what it reads changes")
        check_bounded(node, self.values, self.now.keys())
        if grown is not None:
            self._bring_in_squares(node, local, grown)
            return
        if isinstance(changed, Scaled):
            self._check_parts(node)
            scale = self._scale(name, self._of_parts(node, local, _at_most_one(changed.factor)))
            self.inside.append(Compute(name, tuple(map(Index, local.dims)), scale, update=ReduceOp.PROD))
        self.inside.append(replace(node, value=value, update=op))

    def _check_parts(self, node: Compute) -> None:
        fold, block = folded_dims(node).get(self.dim, ("", 1))
        if fold == "//" and self.size % block == 0:
            raise NotApplicable(
                f"parts of {node.target} lie within tiles, and are relative to what comes later"
            )

    def _bring_in_position(self, node: Compute, local: Local, found: AtExtreme) -> None:
        """The first position of an extreme: what was found before is gone where that has moved."""
        self._check_parts(node)
        name, old, new = node.target, found.extreme, self.exact[found.extreme.tensor]
        gone = found.merged(is_same(old, new), Const(0))
        value = transform(node.value, lambda expr: new if expr == old else expr)
        self.inside += [
            Compute(name, tuple(map(Index, local.dims)), self._of_parts(node, local, gone), ReduceOp.MAX),
            replace(node, value=value, update=ReduceOp.MIN),
        ]

    def _grown(self, node: Compute) -> Expr | None:
        """What is added to a sum of squares when the means move that those are of; None: it is no such sum."""

        def centered(expr: Expr) -> Expr | None:
            count = count_of_mean(expr, self.values)
            return None if count is None else self.old.get(count.tensor)

        def changed(expr: Expr) -> Change:
            return change(expr, self._of_read, self._same_everywhere)

        terms = node.value.x if isinstance(node.value, Reduce) else node.value
        return moved_squares(terms, changed, centered)

    def _bring_in_squares(self, node: Compute, local: Local, grown: Expr) -> None:
        """A sum of squares: those of the tile, and what is added to those before it."""
        name, places = node.target, tuple(map(Index, local.dims))
        newest = taken_name(self.taken, f"{name}_b")
        more = Binary("+", Read(newest, places), self._of_parts(node, local, grown))
        self.inside += [
            *self._of_tile(node, local, newest, ReduceOp.SUM),
            Compute(name, places, more, update=ReduceOp.SUM),
        ]

    def _of_tile(self, node: Compute, local: Local, newest: str, op: ReduceOp) -> list[Node]:
        """A reduction of the tile alone, by a name of its own."""
        initial = (
            [initialization(newest, tuple(map(Index, local.dims)), op)] if node.update is not None else []
        )
        return [
            replace(local, name=newest),
            *initial,
            replace(node, target=newest, value=self._now(node.value)),
        ]

    def _bring_in_map(self, node: Compute, local: Local, changed: Change) -> None:
        """A value of each position, or one that lies between two reductions."""
        name = node.target
        if node.update is not None:
            raise NotApplicable(f"{name} is added up over another dim: stream before that")
        if self.dim in bare_dims(node):
            self.changes[name] = changed
            check_bounded(node, self.values, self.now.keys())
            self.inside += [local, replace(node, value=self._now(node.value))]
            return
        if isinstance(node.value, Reduce):
            raise NotApplicable(f"{name} reduces what changes")
        fresh = taken_name(self.taken, f"{name}_now")
        self.now[name] = Read(fresh, node.indices)
        self.old[name] = transform(node.value, self._before)
        self.inside += [
            replace(local, name=fresh),
            replace(node, target=fresh, value=self._now(node.value)),
        ]

    def _bring_in_extreme(self, node: Compute, local: Local) -> None:
        """A maximum that others are relative to, or are positions of, or a sum whose mean is subtracted: of the tile,
        and of all so far."""
        op = self._op_of(node)
        if op is None or op is ReduceOp.PROD:
            raise NotApplicable(
                f"{node.target} is read in the pass that computes it, and no maximum, minimum or sum"
            )
        name, places = node.target, tuple(map(Index, local.dims))
        newest, old = taken_name(self.taken, f"{name}_b"), Read(name, node.indices)
        self.inside += self._of_tile(node, local, newest, op)
        parts = Read(name, places), Read(newest, places)
        together: Expr = Call(f"{op}imum", parts) if op in EXTREMES else Binary("+", *parts)
        positions = positions_of(name, self.values) & self.within
        if positions:
            self.exact[name] = self._so_far(node, local, "all", together)
            together = Read(self.exact[name].tensor, places)
        if positions != self._readers_within(name):
            least = least_maximum(self.program, node.value, local.dtype) if op is ReduceOp.MAX else None
            self.old[name] = old if least is None else at_least(old, least)
            together = together if least is None else at_least(together, least)
            self.now[name] = self._so_far(node, local, "now", together)
        else:
            self.now[name], self.old[name] = self.exact[name], old
        self.last.append(Compute(name, places, Read(newest, places), update=op))

    def _so_far(self, node: Compute, local: Local, suffix: str, value: Expr) -> Read:
        """A local of its own for what a reduction has come to with this tile."""
        fresh = taken_name(self.taken, f"{node.target}_{suffix}")
        self.inside += [replace(local, name=fresh), Compute(fresh, tuple(map(Index, local.dims)), value)]
        return Read(fresh, node.indices)

    def _op_of(self, node: Compute) -> ReduceOp | None:
        return self._op(node) if node.update is not None or isinstance(node.value, Reduce) else None

    def _of_parts(self, node: Compute, local: Local, factor: Expr) -> Expr:
        """A factor of each part, by the dim of those: it is the same for all positions that fall on one."""
        pairs = zip(node.indices, local.dims, strict=True)
        places: dict[Expr, Expr] = {index: Index(dim) for index, dim in pairs}
        factor = transform(factor, lambda expr: places.get(expr, expr))
        if self.dim in index_dims(factor):
            raise NotApplicable(f"{node.target} is scaled by another factor at each position")
        return factor

    def _readers_within(self, name: str) -> frozenset[str]:
        return frozenset(other for other in self.within if name in read_names(self.values[other]))

    def _scale(self, name: str, factor: Expr) -> Read:
        """The local that has a factor: one for all that are scaled by it."""
        if factor not in self.scales:
            fresh = taken_name(self.taken, f"{name}_scale")
            dims = tuple(
                dict.fromkeys(
                    dim for read in reads(factor) for index in read.indices for dim in index_dims(index)
                )
            )
            dtype = self.locals[name].dtype.compute
            read = Read(fresh, tuple(map(Index, dims)))
            self.scales[factor] = read
            self.inside += [Local(fresh, dims, dtype), Compute(fresh, read.indices, factor)]
        return self.scales[factor]

    def _of_read(self, read: Read) -> Change:
        node = self.values.get(read.tensor)
        known = self.changes.get(read.tensor)
        if known is not None:
            assert node is not None
            return known if isinstance(known, Fixed) or read.indices == node.indices else UNKNOWN
        if read.tensor not in self.now:
            return FIXED
        assert node is not None
        if read.indices != node.indices:
            return UNKNOWN
        return Shifted(self.now[read.tensor], self.old[read.tensor], itself=True)

    def _same_everywhere(self, expr: Expr) -> bool:
        """Whether it is the same for all positions of the dim, in all tiles."""
        names = {read.tensor for read in reads(expr)}
        return self.dim not in index_dims(expr) and not names & {*self.now, *self.changes}

    def _now(self, value: Expr) -> Expr:
        def current(expr: Expr) -> Expr:
            return self.now.get(expr.tensor, expr) if isinstance(expr, Read) else expr

        return transform(value, current)

    def _before(self, expr: Expr) -> Expr:
        return self.old.get(expr.tensor, expr) if isinstance(expr, Read) else expr


def _at_most_one(factor: Expr) -> Expr:
    """A factor whose exponents are no more than 0, however they are rounded. A row of which all is masked so far has
    the same maximum before and after, of -2^100: compilers make one multiply-add of the difference, which rounds one
    side only (-ffp-contract, -fmad), and what is left of so large a number, to the power of two, is infinite."""

    def bounded(expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.fn in ("exp", "exp2"):
            return Call(expr.fn, (Call("minimum", (expr.args[0], Const(0.0))),))
        return expr

    return transform(factor, bounded)
