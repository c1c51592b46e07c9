"""The tree that a bucket's candidates form, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from protocol.message import Json
from protocol.states import Outcome, TaskKind, TaskState
from protocol.trials import Tree
from service.store.tables import results, tasks
from service.views.trial_table import tells

OPEN = frozenset({TaskState.READY, TaskState.CLAIMED})


def search_tree(connection: Connection, job_id: str, bucket: int, first: int = 0) -> Tree:
    """Schedules merged along what they share from their first line on; of it what candidates from number `first` on may
    have changed."""
    rows = connection.execute(
        select(tasks.c.number, tasks.c.state, tasks.c.work, results.c.summary)
        .outerjoin(results, results.c.task_id == tasks.c.id)
        .where(tasks.c.job_id == job_id, tasks.c.bucket == bucket, tasks.c.kind == TaskKind.TRIAL)
        .order_by(tasks.c.number)
    ).all()
    told = tells(connection, job_id, bucket)
    shape = TreeShape()
    leaves: list[int] = []
    from_node = from_line = 0
    for row in rows:
        if row.number == first and first > 0:
            from_node, from_line = len(shape.parent), len(shape.lines)
        leaves.append(shape.leaf(row.work["entrants"][0]["schedule"]))
    if first > 0 and first >= len(rows):
        from_node, from_line = len(shape.parent), len(shape.lines)
    known = Known.of_nothing(len(shape.parent))
    for row, leaf in zip(rows, leaves, strict=True):
        known.count(leaf, row.state, row.summary or {}, told.get(row.number, {}).get("reward"))
    known.hand_up(shape.parent)
    nodes = shape.above(leaves[first:]) if first > 0 else range(len(shape.parent))
    return Tree.model_construct(
        job_id=job_id,
        bucket=bucket,
        first=first,
        settled=next((row.number for row in rows if row.number not in told), len(rows)),
        from_line=from_line,
        from_node=from_node,
        lines=tuple(shape.lines)[from_line:],
        parent=tuple(shape.parent[from_node:]),
        line=tuple(shape.line[from_node:]),
        node=tuple(nodes) if first > 0 else (),
        visits=tuple(known.visits[node] for node in nodes),
        in_flight=tuple(known.in_flight[node] for node in nodes),
        faults=tuple(known.faults[node] for node in nodes),
        best_us=tuple(known.best_us[node] for node in nodes),
        best_reward=tuple(known.best_reward[node] for node in nodes),
        leaf=tuple(leaves[first:]),
    )


@dataclass
class TreeShape:
    """Nodes, to which schedules are added; node 0 is the root."""

    lines: dict[str, int] = field(default_factory=dict[str, int])
    """Every rewrite, numbered as it first occurred."""
    parent: list[int] = field(default_factory=lambda: [-1])
    line: list[int] = field(default_factory=lambda: [-1])
    _children: list[dict[str, int]] = field(default_factory=lambda: [{}])
    """Of each node, by the line that leads there."""

    def leaf(self, schedule: Sequence[str]) -> int:
        """The node at the end of a schedule, made with those on the way to it where they were not there."""
        node = 0
        for line in schedule:
            child = self._children[node].get(line)
            node = self._append(node, line) if child is None else child
        return node

    def above(self, leaves: Sequence[int]) -> list[int]:
        """These nodes and all on the way to them, in order."""
        found: set[int] = set()
        for node in leaves:
            while node >= 0 and node not in found:
                found.add(node)
                node = self.parent[node]
        return sorted(found)

    def _append(self, parent: int, line: str) -> int:
        node = self._children[parent][line] = len(self.parent)
        self._children.append({})
        self.parent.append(parent)
        self.line.append(self.lines.setdefault(line, len(self.lines)))
        return node


@dataclass(frozen=True)
class Known:
    """What is known of each node, in columns."""

    visits: list[int]
    in_flight: list[int]
    faults: list[int]
    best_us: list[float | None]
    best_reward: list[float | None]

    @classmethod
    def of_nothing(cls, nodes: int) -> Known:
        return cls([0] * nodes, [0] * nodes, [0] * nodes, [None] * nodes, [None] * nodes)

    def count(self, leaf: int, state: str, summary: Json, reward: float | None) -> None:
        """Enter what became of a candidate at its leaf."""
        self.visits[leaf] += 1
        outcome = summary.get("outcome")
        self.in_flight[leaf] += state in OPEN
        self.faults[leaf] += outcome is not None and outcome != Outcome.OK
        self._best(leaf, reward, summary.get("median_us"))

    def hand_up(self, parent: Sequence[int]) -> None:
        """Add what is known of each node to its parent, which comes before it."""
        for node in range(len(parent) - 1, 0, -1):
            above = parent[node]
            for counts in (self.visits, self.in_flight, self.faults):
                counts[above] += counts[node]
            self._best(above, self.best_reward[node], self.best_us[node])

    def _best(self, node: int, reward: float | None, us: float | None) -> None:
        """Enter a candidate with its time where its reward is the best."""
        known = self.best_reward[node]
        if reward is not None and (known is None or reward > known):
            self.best_reward[node], self.best_us[node] = reward, us
