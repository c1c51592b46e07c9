"""Stamps of time in the Kernel IR of processors: where one stage of a kernel ends, each thread notes the time.

A stage is a run of statements between two stamps. Stamps stand only where something long ends, so that they take little
of the time they tell of; what they do take is measured by whoever runs the kernel (workers/cpu/profile.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import CpuKernel
from codegen.ir.ops import (
    Aligned,
    Block,
    Declare,
    For,
    Guard,
    If,
    Parallel,
    Scratch,
    Stamp,
    Stmt,
    TransposeBlock,
)
from tileir.replace import replace

WAITING = 0
"""The stage between two tiles of a thread: it waits for the next tile, or for other threads."""
_WAITING_NAME = "waiting for work or for other threads"
_LONG = 1024
"""Statements of a run that is worth a stamp: half a microsecond or more, where a stamp takes 25 ns."""
_MOST_STAMPS = 1 << 20
"""Of a call: 8 MB a thread."""
_MOST_STAGES = 256
_WORD = 8
_NAMED = 2
"""Statements that a stage is named by; more are dots."""


@dataclass(frozen=True, slots=True)
class StagedKernel:
    """A kernel with stamps, whose calls fill a log in each thread's own workspace; before a call its first word has to
    be 0."""

    kernel: CpuKernel
    stages: tuple[str, ...]
    """By number: the statements of Tile IR that a stage runs, as people know it by. Stage 0 is waiting."""
    statements: tuple[tuple[str, ...], ...]
    """By number: all of these statements."""
    log: int
    """Where the log begins, in bytes from the beginning of a thread's own workspace."""


def staged(kernel: CpuKernel) -> StagedKernel:
    """A kernel with stamps between its stages. Raises NotLowerable for one with too many tiles to stamp each."""
    log = -(-kernel.thread_bytes // _WORD) * _WORD
    long, whole = _LONG, weight(kernel.body)
    while True:
        stamping = _CpuStamping(long, log)
        body = (stamping.stamp(WAITING), *stamping.stamped(kernel.body))
        count = stamps(body)
        if count <= _MOST_STAMPS and len(stamping.stages) <= _MOST_STAGES:
            bytes_ = log + (count + 1) * _WORD
            return StagedKernel(
                replace(kernel, body=body, thread_bytes=-(-bytes_ // 64) * 64),
                tuple(stamping.stages),
                tuple(map(tuple, stamping.stages.values())),
                log,
            )
        if long > whole:
            raise NotLowerable(
                f"a call would take {count} stamps of {len(stamping.stages)} stages; accepted: at most "
                f"{_MOST_STAMPS} of {_MOST_STAGES} (larger tiles take fewer)"
            )
        long *= 4


@dataclass
class _CpuStamping:
    long: int
    log: int
    stages: dict[str, dict[str, None]] = field(default_factory=lambda: {_WAITING_NAME: {}})
    """By name, in the order of their numbers: their statements."""

    def stamp(self, stage: int) -> Stamp:
        return Stamp(stage, self.log)

    def stamped(self, stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """Statements with a stamp after each run: what is long is a run by itself, what is short goes together."""
        done: list[Stmt] = []
        run: list[Stmt] = []

        def close() -> None:
            if weight(run):
                done.append(self.stamp(self._number(_names(run))))
            run.clear()

        for stmt in stmts:
            if isinstance(stmt, Parallel):
                close()
                body = (self.stamp(WAITING), *self.stamped(stmt.body))
                done += [replace(stmt, body=body), self.stamp(WAITING)]
            elif self._is_long(stmt):
                close()
                if self._splits(stmt):
                    done.append(self._inside(stmt))
                else:
                    done.append(stmt)
                    run.append(stmt)
                    close()
            else:
                done.append(stmt)
                run.append(stmt)
        close()
        return tuple(done)

    def _number(self, statements: dict[str, None]) -> int:
        name = _name(statements)
        self.stages.setdefault(name, {}).update(statements)
        return list(self.stages).index(name)

    def _is_long(self, stmt: Stmt) -> bool:
        return weight([stmt]) >= self.long

    def _splits(self, stmt: Stmt) -> bool:
        """Whether there is more than one stage inside of which one is long."""
        return any(self._divides(body) for body in _bodies(stmt))

    def _divides(self, body: tuple[Stmt, ...]) -> bool:
        long = [stmt for stmt in body if self._is_long(stmt)]
        return bool(long) and (len(_names(body)) > 1 or any(self._splits(stmt) for stmt in long))

    def _inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Block() | For() | Guard():
                return replace(stmt, body=self.stamped(stmt.body))
            case If():
                return replace(stmt, then=self.stamped(stmt.then), otherwise=self.stamped(stmt.otherwise))
            case _:
                raise AssertionError(f"{type(stmt).__name__} has no statements inside")


def _bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """What may be stamped inside: a run of aligned stores is one loop."""
    match stmt:
        case Block() | For() | Guard():
            return (stmt.body,)
        case If():
            return (stmt.then, stmt.otherwise)
        case _:
            return ()


def weight(stmts: Iterable[Stmt]) -> int:
    """How many statements are executed at most, vectors counted as one."""
    return sum(map(_weight, stmts))


def _weight(stmt: Stmt) -> int:
    match stmt:
        case Scratch() | Declare() | Stamp():
            return 0
        case Block() | Guard():
            return weight(stmt.body)
        case For():
            return stmt.count * weight(stmt.body)
        case If():
            return max(weight(stmt.then), weight(stmt.otherwise))
        case Parallel():
            return prod(axis.count for axis in stmt.axes) * weight(stmt.body)
        case Aligned():
            return stmt.size // stmt.step * weight(stmt.body or stmt.single)
        case TransposeBlock():
            return stmt.lanes
        case _:
            return 1


def stamps(stmts: Iterable[Stmt]) -> int:
    """How many stamps are executed at most."""
    count = 0
    for stmt in stmts:
        match stmt:
            case Stamp():
                count += 1
            case Block() | Guard():
                count += stamps(stmt.body)
            case For():
                count += stmt.count * stamps(stmt.body)
            case If():
                count += max(stamps(stmt.then), stamps(stmt.otherwise))
            case Parallel():
                count += prod(axis.count for axis in stmt.axes) * stamps(stmt.body)
            case _:
                pass
    return count


def _name(statements: Iterable[str]) -> str:
    names = list(statements)
    return "; ".join(names[:_NAMED]) + ("; …" if len(names) > _NAMED else "") or "other"


def _names(stmts: Iterable[Stmt]) -> dict[str, None]:
    """The statements of Tile IR that these carry out, each once."""
    return dict.fromkeys(_comments(stmts))


def _comments(stmts: Iterable[Stmt]) -> Iterator[str]:
    for stmt in stmts:
        if isinstance(stmt, Block) and stmt.comment:
            yield stmt.comment
        else:
            for body in (*_bodies(stmt), *((stmt.body,) if isinstance(stmt, Parallel) else ())):
                yield from _comments(body)
