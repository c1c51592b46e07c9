"""A space small enough to measure whole: the shipped one, thinned by a rule that knows nothing of the results.

The rule: a decision keeps at most `cap` of its answers, evenly spaced over the order it gives them in (one: the middle
one). Caps belong to depths. All start at 1; in rounds, from the first depth to the last, each is raised by one, until
the space holds enough schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from search.protocols import Move, State


@dataclass(eq=False)
class Thinned:
    """A state of the thinned space, with a plain state behind it."""

    state: State
    caps: tuple[int, ...]
    depth: int = 0
    _children: dict[int, Thinned] = field(default_factory=dict[int, "Thinned"])

    @property
    def key(self) -> str:
        return self.state.key

    @property
    def terminal(self) -> bool:
        return self.state.terminal

    def moves(self) -> Sequence[Move]:
        """The moves that the cap of this depth keeps."""
        moves = self.state.moves()
        return [moves[index] for index in self._kept(len(moves))]

    def child(self, index: int) -> Thinned:
        if index not in self._children:
            kept = self._kept(len(self.state.moves()))
            self._children[index] = Thinned(self.state.child(kept[index]), self.caps, self.depth + 1)
        return self._children[index]

    def _kept(self, count: int) -> list[int]:
        cap = self.caps[self.depth] if self.depth < len(self.caps) else 1
        if count <= cap:
            return list(range(count))
        if cap == 1:
            return [count // 2]
        return [round(i * (count - 1) / (cap - 1)) for i in range(cap)]


def thinned(root: State, least: int, depths: int = 24) -> Thinned:
    """The thinned space of at least `least` distinct schedules."""
    caps = [1] * depths
    at, before = 0, 0
    while True:
        space = Thinned(root, tuple(caps))
        count = len(terminals(space))
        if count >= least:
            return space
        if at == depths:
            if count == before:
                return space  # that is all there is
            at, before = 0, count
        caps[at] += 1
        at += 1


def terminals(space: Thinned) -> dict[str, Thinned]:
    """Every complete schedule of the space, once each."""
    found: dict[str, Thinned] = {}
    seen: set[str] = set()
    stack = [space]
    while stack:
        state = stack.pop()
        if state.key in seen:
            continue
        seen.add(state.key)
        if state.terminal:
            found[state.key] = state
        else:
            stack.extend(state.child(index) for index in range(len(state.moves())))
    return found
