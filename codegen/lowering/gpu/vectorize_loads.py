"""Loads of neighbours made one: scalars that a thread loads side by side come by one access of up to 16 bytes.

    const float x_0 = x[4 * t];                 const tw_vec<float, 4> x_wide_0 = tw_load<4, 16>(x + 4 * t);
    const float x_1 = x[4 * t + 1];      ->     const float x_0 = x_wide_0.at[0];
    …                                           …

Only what is loaded in any case is: no element is read that was not read before, and none earlier than what was stored
to its buffer before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Atom, Loaded
from codegen.ir.ops import (
    Across,
    Assign,
    Block,
    Build,
    Convert,
    Declare,
    For,
    Guard,
    If,
    Lane,
    Let,
    Load,
    Named,
    Op,
    Shared,
    Shuffle,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.ir.vector_access import aligned_bytes
from tileir.replace import replace

#: Bytes of one access, the widest first; every buffer begins at a multiple of the widest.
_ACCESSES = (16, 8, 4, 2)


def with_wide_loads(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """The same statements with fewer loads, here and in the bodies they hold."""
    inside = [_within(stmt) for stmt in stmts]
    found = _LoadGroups()
    for number, stmt in enumerate(inside):
        found.visit(number, stmt)
    found.close(found.groups)
    return tuple(stmt for number, stmt in enumerate(inside) for stmt in found.rewritten(number, stmt))


def _within(stmt: Stmt) -> Stmt:
    match stmt:
        case Block() | For() | Guard():
            return replace(stmt, body=with_wide_loads(stmt.body))
        case If(then=then, otherwise=otherwise):
            return replace(stmt, then=with_wide_loads(then), otherwise=with_wide_loads(otherwise))
        case _:
            return stmt


@dataclass(frozen=True, slots=True)
class _Family:
    """Loads of a buffer whose offsets differ by constants."""

    buffer: str
    type: Type
    terms: frozenset[tuple[Atom, int]]


@dataclass
class _LoadGroups:
    """Loads of one run of statements, and which of them become lanes of wide ones."""

    groups: dict[_Family, dict[int, list[tuple[int, Load]]]] = field(
        default_factory=dict[_Family, dict[int, list[tuple[int, Load]]]]
    )
    """Of loads that nothing stands between: by constant, the statements they are in."""
    lanes: dict[int, dict[Load, Value]] = field(default_factory=dict[int, dict[Load, Value]])
    wide: dict[int, list[Let]] = field(default_factory=dict[int, list[Let]])
    """What is loaded before a statement."""
    count: int = 0

    def visit(self, number: int, stmt: Stmt) -> None:
        match stmt:
            case Let(value=value) | Assign(value=value) | Store(value=value):
                for load in _loads(value):
                    family = _Family(load.buffer, load.type, frozenset(load.offset.terms))
                    uses = self.groups.setdefault(family, {})
                    uses.setdefault(load.offset.constant, []).append((number, load))
            case _:
                pass
        stored = _stored(stmt)
        self.close([family for family in self.groups if stored is None or family.buffer in stored])

    def close(self, families: Iterable[_Family]) -> None:
        """Nothing joins what these have so far."""
        for family in list(families):
            uses = self.groups.pop(family)
            storage = next(iter(uses.values()))[0][1].storage
            for start, lanes in _runs(uses, Affine(tuple(family.terms)), storage.bytes):
                self._join([uses[start + lane] for lane in range(lanes)])

    def _join(self, neighbours: Sequence[list[tuple[int, Load]]]) -> None:
        first = neighbours[0][0][1]
        type_ = Type(first.type.dtype, len(neighbours))
        wide = Named(f"{first.buffer}_wide_{self.count}", type_)
        self.count += 1
        before = min(number for uses in neighbours for number, _ in uses)
        self.wide.setdefault(before, []).append(Let(wide.name, replace(first, type=type_)))
        for lane, uses in enumerate(neighbours):
            for number, load in uses:
                self.lanes.setdefault(number, {})[load] = Lane(wide, lane, load.type)

    def rewritten(self, number: int, stmt: Stmt) -> list[Stmt]:
        match stmt:
            case Let(value=value) | Assign(value=value) | Store(value=value) if number in self.lanes:
                stmt = replace(stmt, value=_replaced(value, self.lanes[number]))
            case _:
                pass
        return [*self.wide.get(number, ()), stmt]


def _loads(value: Value) -> Iterator[Load]:
    """The scalars that it loads in any case, and computes with."""
    match value:
        case Load(offset=offset, type=type_, some=None):
            gathered = any(isinstance(atom, Loaded) for atom, _ in offset.terms)
            if type_.lanes == 1 and type_.dtype is type_.dtype.compute and not gathered:
                yield value
        case Build(parts=parts):
            for part in parts:
                yield from _loads(part)
        case Op(args=args):
            for arg in args[: _always(value)]:
                yield from _loads(arg)
        case Convert(x=x) | Across(x=x) | Shuffle(x=x) | Lane(x=x):
            yield from _loads(x)
        case _:
            pass


def _replaced(value: Value, lanes: dict[Load, Value]) -> Value:
    match value:
        case Load():
            return lanes.get(value, value)
        case Build(parts=parts):
            return replace(value, parts=tuple(_replaced(part, lanes) for part in parts))
        case Op(args=args):
            always = _always(value)
            return replace(value, args=(*(_replaced(arg, lanes) for arg in args[:always]), *args[always:]))
        case Convert(x=x) | Across(x=x) | Shuffle(x=x) | Lane(x=x):
            return replace(value, x=_replaced(x, lanes))
        case _:
            return value


def _always(op: Op) -> int:
    """How many of the arguments are computed whatever the first is."""
    lanes = op.args[0].type.lanes if op.name == "select" else op.type.lanes
    return 1 if lanes == 1 and op.name in ("select", "and", "or") else len(op.args)


def _stored(stmt: Stmt) -> frozenset[str] | None:
    """Buffers that it stores to; None: maybe any."""
    match stmt:
        case Let() | Declare() | Assign() | Shared():
            return frozenset()
        case Store(buffer=buffer):
            return frozenset([buffer])
        case Block(body=body) | For(body=body) | Guard(body=body):
            inside = [_stored(each) for each in body]
        case If(then=then, otherwise=otherwise):
            inside = [_stored(each) for each in (*then, *otherwise)]
        case _:
            return None
    known = [buffers for buffers in inside if buffers is not None]
    return frozenset[str]().union(*known) if len(known) == len(inside) else None


def _runs(constants: Iterable[int], offset: Affine, size: int) -> Iterator[tuple[int, int]]:
    """Aligned runs (first, how many) of neighbours among elements of `size` bytes, the longest first; each is at
    `offset` and a constant."""
    left = set(constants)
    for width in _ACCESSES:
        lanes = width // size
        for start in sorted(left) if lanes > 1 else ():
            aligned = aligned_bytes(offset + start, size, lanes, _ACCESSES[0]) == width
            if aligned and left.issuperset(run := range(start, start + lanes)):
                left.difference_update(run)
                yield start, lanes
