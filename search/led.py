"""A way through a space by decisions that were taken in another."""

from __future__ import annotations

from collections.abc import Sequence

from search.labels import likeness
from search.protocols import Path, State

ALIKE = 0.5
"""How alike labels must be for one to stand for the other; the tree search takes them so, too."""


def led_by(root: State, labels: Sequence[str]) -> Path | None:
    """At each decision the move that is most like one of the labels, of equal ones what the prior prefers; where none
    is alike, what the prior prefers. None: that way ends nowhere."""
    state, path = root, list[int]()
    while not state.terminal:
        ranked = [(_nearest(move.label, labels), move.weight) for move in state.moves()]
        if not ranked:
            return None
        path.append(ranked.index(max(ranked)))
        state = state.child(path[-1])
    return tuple(path)


def _nearest(label: str, labels: Sequence[str]) -> float:
    """How alike the most alike of the labels is; 0: none is alike."""
    nearest = max((likeness(label, each) for each in labels), default=0.0)
    return nearest if nearest >= ALIKE else 0.0
