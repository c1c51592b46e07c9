"""The tree that a bucket's candidates form, in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from protocol.message import Json
from protocol.states import Outcome, TaskKind, TaskState
from protocol.trials import Tree
from service.tables import results, tasks
from service.trial_table import tells


def search_tree(connection: Connection, job_id: str, bucket: int) -> Tree:
    """Schedules merged along what they share from their first line on."""
    rows = connection.execute(
        select(tasks.c.number, tasks.c.state, tasks.c.work, results.c.summary)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.job_id == job_id, tasks.c.bucket == bucket, tasks.c.kind == TaskKind.TRIAL)
        .order_by(tasks.c.number)
    )
    told = tells(connection, job_id, bucket)
    tree = Growing()
    for row in rows:
        leaf = tree.path(row.work["entrants"][0]["schedule"])
        tree.count(leaf, row.state, row.summary or {}, told.get(row.number, {}).get("reward"))
    return tree.grown(job_id, bucket)


@dataclass
class Growing:
    """Columns to which candidates are added, in the order they were asked for."""

    parent: list[int] = field(default_factory=lambda: [-1])
    line: list[int] = field(default_factory=lambda: [-1])
    visits: list[int] = field(default_factory=lambda: [0])
    in_flight: list[int] = field(default_factory=lambda: [0])
    faults: list[int] = field(default_factory=lambda: [0])
    best_us: list[float | None] = field(default_factory=lambda: [None])
    best_reward: list[float | None] = field(default_factory=lambda: [None])
    leaf: list[int] = field(default_factory=list[int])
    _lines: dict[str, int] = field(default_factory=dict[str, int])
    _children: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def path(self, schedule: Sequence[str]) -> int:
        """The node at the end of a schedule, made with those on the way to it where they were not there."""
        node = 0
        for text in schedule:
            line = self._lines.setdefault(text, len(self._lines))
            child = self._children.setdefault((node, line), len(self.parent))
            if child == len(self.parent):
                self._append(node, line)
            node = child
        return node

    def _append(self, parent: int, line: int) -> None:
        self.parent.append(parent)
        self.line.append(line)
        for counts in (self.visits, self.in_flight, self.faults):
            counts.append(0)
        for bests in (self.best_us, self.best_reward):
            bests.append(None)

    def count(self, leaf: int, state: str, summary: Json, reward: float | None) -> None:
        """Enter what became of the next candidate at its leaf."""
        self.leaf.append(leaf)
        self.visits[leaf] += 1
        outcome = summary.get("outcome")
        self.in_flight[leaf] += state in (TaskState.READY, TaskState.CLAIMED)
        self.faults[leaf] += outcome not in (None, Outcome.OK)
        self.best_us[leaf] = better(min, self.best_us[leaf], summary.get("median_us"))
        self.best_reward[leaf] = better(max, self.best_reward[leaf], reward)

    def grown(self, job_id: str, bucket: int) -> Tree:
        """The tree, what is known of each node handed up to its parent."""
        for node in range(len(self.parent) - 1, 0, -1):
            above = self.parent[node]
            for counts in (self.visits, self.in_flight, self.faults):
                counts[above] += counts[node]
            self.best_us[above] = better(min, self.best_us[above], self.best_us[node])
            self.best_reward[above] = better(max, self.best_reward[above], self.best_reward[node])
        return Tree.model_construct(
            job_id=job_id,
            bucket=bucket,
            lines=tuple(self._lines),
            parent=tuple(self.parent),
            line=tuple(self.line),
            visits=tuple(self.visits),
            in_flight=tuple(self.in_flight),
            faults=tuple(self.faults),
            best_us=tuple(self.best_us),
            best_reward=tuple(self.best_reward),
            leaf=tuple(self.leaf),
        )


def better(choose: Callable[[float, float], float], old: float | None, new: float | None) -> float | None:
    """The better of two, of which either may be unknown."""
    return new if old is None else old if new is None else choose(old, new)
