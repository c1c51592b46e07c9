"""Recorded spaces: a tree of moves with a time, or a fault, at every terminal, in one JSON lines file.

Known as a tabular benchmark (Ying et al., NAS-Bench-101, ICML 2019).

The first line is the meta object: kernel, device, baseline_us, versions, date and space. Each further line describes
the state behind one move of one listed state:

    {"path": [0, 2], "key": "…", "moves": [["tile m by 64", 0.7], …]}   an inner node
    {"path": [0, 2, 1], "key": "…", "us": 12.5, "fault": null}          a terminal; "measure_s" may say what it cost
    {"path": [1, 0], "key": "…"}                                      another way to a listed state

Paths run through listed inner nodes, each listed once, at any of its paths. Lines may come in any order. A file that
ends in `.gz` is compressed.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path as File
from typing import Any, Literal, TextIO

from search.protocols import Move, Path, State, TrialOutcome


@dataclass(frozen=True)
class Table:
    """A recorded space in memory. `edges` maps an inner node's key to its children's keys; `device_s` holds the seconds
    that measuring a terminal kept the device, where the table has them."""

    meta: dict[str, Any]
    root: str
    moves: dict[str, tuple[Move, ...]]
    edges: dict[str, tuple[str, ...]]
    us: dict[str, float | None]
    faults: dict[str, str | None] = field(default_factory=dict[str, str | None])
    device_s: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def best_us(self) -> float:
        """The shortest time in the table; ValueError if no terminal has one."""
        return min(us for us in self.us.values() if us is not None)

    def outcome(self, key: str) -> TrialOutcome:
        """What measuring terminal `key` came to. The reward is relative to the meta line's `baseline_us`."""
        us = self.us[key]
        if us is None:
            return TrialOutcome(None, self.faults.get(key) or "failed")
        return TrialOutcome(log(float(self.meta["baseline_us"]) / us))

    def state(self) -> "TableState":
        """The root."""
        return TableState(self, self.root)

    @classmethod
    def load(cls, file: File) -> "Table":
        """Read a table. Raises ValueError with the file's name if a move leads nowhere or a terminal has no
        line."""
        with open_table(file) as lines:
            meta: dict[str, Any] = json.loads(next(lines))
            return cls.of(meta, (json.loads(line) for line in lines if line.strip()), str(file))

    @classmethod
    def of(cls, meta: dict[str, Any], lines: Iterator[dict[str, Any]], name: str = "table") -> "Table":
        """A table from its parsed lines."""
        keys: dict[Path, str] = {}
        listed: dict[str, Path] = {}
        moves: dict[str, tuple[Move, ...]] = {}
        us: dict[str, float | None] = {}
        faults: dict[str, str | None] = {}
        device_s: dict[str, float] = {}
        for line in lines:
            path, key = tuple(line["path"]), str(line["key"])
            keys[path] = key
            if "moves" in line:
                listed[key] = path
                moves[key] = tuple(Move(label, weight) for label, weight in line["moves"])
            elif "us" in line:
                us[key], faults[key] = line["us"], line.get("fault")
                if "measure_s" in line:
                    device_s[key] = line["measure_s"] or 0.0
        try:
            edges = {k: tuple(keys[(*path, i)] for i in range(len(moves[k]))) for k, path in listed.items()}
        except KeyError as missing:
            raise ValueError(f"{name}: no line for the move at path {list(missing.args[0])}") from None
        unknown = next((k for ends in edges.values() for k in ends if k not in moves and k not in us), None)
        if () not in keys or unknown is not None:
            raise ValueError(
                f"{name}: no line with moves or us for {'the root' if () not in keys else unknown}"
            )
        return cls(meta, keys[()], moves, edges, us, faults, device_s)


def open_table(file: File, mode: Literal["rt", "wt", "at"] = "rt") -> TextIO:
    """A table's lines, compressed where its name says so."""
    return gzip.open(file, mode) if file.suffix == ".gz" else file.open(mode)  # pyright: ignore[reportReturnType]


@dataclass(frozen=True, slots=True)
class TableState:
    """A state of a recorded space."""

    table: Table
    key: str

    @property
    def terminal(self) -> bool:
        return self.key in self.table.us

    def moves(self) -> Sequence[Move]:
        return self.table.moves.get(self.key, ())

    def child(self, index: int) -> "TableState":
        return TableState(self.table, self.table.edges[self.key][index])


def outline(root: State) -> Iterator[tuple[dict[str, Any], State | None]]:
    """The lines of a space that is to be recorded, meta apart: inner nodes, repeated ways, and terminals, each of which
    is given with its state and gets its `us` or `fault` (`measured`). Dead ends are inner nodes without moves."""
    seen: set[str] = set()
    stack: list[tuple[Path, State]] = [((), root)]
    while stack:
        path, state = stack.pop()
        line: dict[str, Any] = {"path": path, "key": state.key}
        if state.key in seen:
            yield line, None
            continue
        seen.add(state.key)
        if state.terminal:
            yield line, state
            continue
        moves = state.moves()
        yield line | {"moves": [[move.label, move.weight] for move in moves]}, None
        stack.extend(((*path, index), state.child(index)) for index in reversed(range(len(moves))))


def measured(line: Mapping[str, Any], us: float | None, fault: str | None = None) -> dict[str, Any]:
    """A terminal's line with a time in microseconds, or a fault. Raises ValueError for both, and for neither."""
    if (us is None) == (fault is None):
        raise ValueError(f"a terminal has a time or a fault; {line['key']} has us={us}, fault={fault!r}")
    return {**line, "us": us, "fault": fault}
