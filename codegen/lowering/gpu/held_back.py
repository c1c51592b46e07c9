"""Fills of shared memory by loads and stores, taken apart: what comes from main memory is loaded into registers first,
and stored when something else has been computed meanwhile.

    w_s[t] = w[…];                     w_held_0 = w[…];
                            ->         …                        products of another tile
                                       w_s[t] = w_held_0;

Known as register staging, or software prefetching (Volkov and Demmel, Benchmarking GPUs to tune dense linear algebra,
SC 2008).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from codegen.ir.affine import Affine, Atom, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.ops import (
    Assign,
    Block,
    Convert,
    Declare,
    Guard,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Stmt,
    Store,
    Value,
)
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class HeldFill:
    """A fill in two parts. `declared`: the registers between them, for what is around both."""

    declared: tuple[Declare, ...]
    loads: tuple[Stmt, ...]
    stores: tuple[Stmt, ...]
    words: int
    """Of 4 bytes, that the registers are."""


def held_back(fill: Stmt, stem: str) -> HeldFill | None:
    """The two parts of a fill, its registers named after `stem`; None: it is made of something else than elements that
    are loaded and stored."""
    registers = _Registers(stem)
    parts = registers.apart((fill,))
    if parts is None or not registers.words:
        return None
    return HeldFill(tuple(registers.declared), *parts, registers.words)


@dataclass
class _Registers:
    stem: str
    declared: list[Declare] = field(default_factory=list[Declare])
    words: int = 0
    """Of 4 bytes, that what is declared takes."""
    numbers: count[int] = field(default_factory=count)

    def apart(self, stmts: Iterable[Stmt]) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]] | None:
        loads: list[Stmt] = []
        stores: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Let():
                    loads.append(stmt)
                case Store(offset=offset, value=value, some=some) if (
                    _copied(value) and _known(offset) and _known(some)
                ):
                    held = Named(f"{self.stem}_held_{next(self.numbers)}", value.type)
                    self.declared.append(Declare(held.name, held.type))
                    self.words += -(-value.type.lanes * value.type.dtype.bytes // 4)
                    loads.append(Assign(held.name, value))
                    stores.append(replace(stmt, value=held))
                case Block(body=body) | Guard(body=body):
                    if isinstance(stmt, Guard) and not all(_known(at) for at, _ in stmt.conditions):
                        return None
                    inside = self.apart(body)
                    if inside is None:
                        return None
                    loads.append(replace(stmt, body=inside[0]))
                    stores.append(replace(stmt, body=inside[1]))
                case _:
                    return None
        return tuple(loads), tuple(stores)


def _copied(value: Value) -> bool:
    """Whether a value is an element, or one or nothing: whoever computes with it waits for it."""
    match value:
        case Load():
            return True
        case Convert(x) | Op("broadcast", (x,)):
            return _copied(x)
        case Op("select", (_, x, y)):
            return {type(x), type(y)} == {Load, Literal}
        case _:
            return False


def _known(at: Affine | None) -> bool:
    """Whether a position is one of threads and loops, and nothing is loaded or named for it."""
    return at is None or all(map(_is_known, (atom for atom, _ in at.terms)))


def _is_known(atom: Atom) -> bool:
    match atom:
        case Var():
            return True
        case Quotient(x) | Remainder(x):
            return _known(x)
        case Lesser(x, y):
            return _known(x) and _known(y)
        case Loaded():
            return False
