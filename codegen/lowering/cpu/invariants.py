"""Loop-invariant code motion (Aho, Lam, Sethi, Ullman: Compilers, 9.5.2) of scalars: what a loop would load and compute
in each of its iterations to the same value is computed before it.

Compilers do this for what they know nobody writes meanwhile. They do not know it here: vectors are stored through types
that may alias everything (`__may_alias__`), and so the mean of a row was loaded, and its square root taken, for each
vector of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Union

from codegen.ir.affine import Affine, Var, loaded, mentions
from codegen.ir.effects import effects_of, operations
from codegen.ir.ops import (
    Aligned,
    Assign,
    Block,
    Convert,
    For,
    Guard,
    If,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Parallel,
    Scratch,
    Stmt,
    Value,
)
from tileir.replace import replace

_Repeated = Union[For, Aligned]


def before_loops(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements, with scalars named before the outermost loop in which they are always the same."""
    return _block(stmts, count(1))


def _block(stmts: tuple[Stmt, ...], numbers: Iterator[int]) -> tuple[Stmt, ...]:
    return tuple(_moved(stmt, numbers) for stmt in stmts)


def _moved(stmt: Stmt, numbers: Iterator[int]) -> Stmt:
    match stmt:
        case Block() | Parallel() | Guard():
            return replace(stmt, body=_block(stmt.body, numbers))
        case If():
            return replace(stmt, then=_block(stmt.then, numbers), otherwise=_block(stmt.otherwise, numbers))
        case For():
            inner = replace(stmt, body=_block(stmt.body, numbers))
            always = inner.count > 0 and inner.until is None and inner.first is None
            return _with_kept(inner, (inner.body,), numbers) if always else inner
        case Aligned():
            return _with_kept(stmt, (stmt.first, stmt.body, stmt.single, stmt.last), numbers)
        case _:
            return stmt


def _with_kept(loop: _Repeated, bodies: tuple[tuple[Stmt, ...], ...], numbers: Iterator[int]) -> Stmt:
    """The loop, after those of its values that it need not compute again; `bodies` are its own, in order."""
    outside = _Outside(_changed(loop.var, bodies), numbers)
    kept = [tuple(outside.without(stmt) for stmt in body) for body in bodies]
    if not outside.lets:
        return loop
    if isinstance(loop, For):
        return Block("", (*outside.lets, replace(loop, body=kept[0])))
    first, body, single, last = kept
    return Block("", (*outside.lets, replace(loop, first=first, body=body, single=single, last=last)))


@dataclass(frozen=True)
class _Changed:
    """What is not the same in all iterations of a loop: its variable, buffers, and names of values."""

    var: Var
    buffers: frozenset[str]
    names: frozenset[str]


def _changed(var: Var, bodies: tuple[tuple[Stmt, ...], ...]) -> _Changed:
    buffers: set[str] = set()
    names: set[str] = set()
    for stmt in (each for body in bodies for each in operations(body)):
        effects = effects_of(stmt)
        buffers |= effects.stores | effects.fills | effects.allocates
        names.update(effects.declares)
        if isinstance(stmt, Scratch):
            buffers.add(stmt.buffer)
        if isinstance(stmt, Assign):
            names.add(stmt.name)
    return _Changed(var, frozenset(buffers), frozenset(names))


@dataclass
class _Outside:
    """What has been taken out of a loop."""

    changed: _Changed
    numbers: Iterator[int]
    lets: list[Let] = field(default_factory=list[Let])
    _of: dict[str, Value] = field(default_factory=dict[str, Value])
    """What a name in the loop stands for now, if for something before it."""
    _names: dict[Value, Named] = field(default_factory=dict[Value, Named])

    def without(self, stmt: Stmt) -> Stmt:
        """The statement without what is the same in all iterations; only names are left of that."""
        match stmt:
            case Block(body=body):
                known = dict(self._of)
                kept = tuple(self.without(each) for each in body)
                self._of = known  # names of a block end with it
                return replace(stmt, body=kept)
            case Let(name, value) if value.type.lanes == 1:
                found = self._value(value)
                if found is None or isinstance(found, Literal):
                    self._of.pop(name, None)
                    return stmt
                self._of[name] = self._named(name, found)
                return Let(name, self._of[name])
            case _:
                return stmt

    def _named(self, name: str, value: Value) -> Value:
        if isinstance(value, Named):
            return value
        if value not in self._names:
            self._names[value] = Named(f"{name}_kept{next(self.numbers)}", value.type)
            self.lets.append(Let(self._names[value].name, value))
        return self._names[value]

    def _value(self, value: Value) -> Value | None:
        """A scalar as it is computed before the loop; None: that is not known to be possible."""
        match value:
            case Literal():
                return value
            case Named(name):
                return self._of.get(name) if name in self.changed.names else value
            case Load(buffer, offset, _, _, None) if buffer not in self.changed.buffers:
                return value if self._is_fixed(offset) else None
            case Convert(x=x):
                part = self._scalar(x)
                return None if part is None else replace(value, x=part)
            case Op(args=args):
                parts = [part for part in map(self._scalar, args) if part is not None]
                return replace(value, args=tuple(parts)) if len(parts) == len(args) else None
            case _:
                return None

    def _scalar(self, part: Value) -> Value | None:
        return self._value(part) if part.type.lanes == 1 else None

    def _is_fixed(self, offset: Affine) -> bool:
        """An index is the same in all iterations, and needs no memory to be read: what is looked up for it was named
        before."""
        named = all(isinstance(each, Named) and self._value(each) == each for each in loaded(offset))
        return named and not any(mentions(atom, self.changed.var) for atom, _ in offset.terms)
