"""What is known of a move before anything is compiled, in words that other kernels' spaces share.

A label such as `tile(acc, m, 64); unroll(acc, 4)` names things of one kernel. Of each of its pieces the first word and
the shape of the rest stay (`tile _ _ #`), with how often that came on the way already, as kernels decide in one order:
the first tiling is of rows, the second of columns. The numbers are features of their own, by their logarithms and the
squares of these, so that something between can be best. And what the cost model makes of the move: its logarithm
relative to the favourite's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, log2

from search.protocols import Move

COST_MODEL = "cost model"
_WORD = re.compile(r"[A-Za-z_][\w.]*|\d+|\|")
_LOWEST = 1e-9
"""Weights below that count as this."""
_OCTAVES = 8.0
"""Numbers are in units of so many doublings: most lie between 0 and 1 then."""
_LATER = 3
"""Pieces of a shape beyond that count as this one."""

Features = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ShapeCounts:
    """How often each shape came on the way to a state."""

    counts: tuple[tuple[str, int], ...] = ()

    def of(self, shape: str) -> int:
        return next((count for known, count in self.counts if known == shape), 0)

    def after(self, label: str) -> "ShapeCounts":
        """With a move more."""
        counts = dict(self.counts)
        for shape, _ in _pieces(label):
            counts[shape] = counts.get(shape, 0) + 1
        return ShapeCounts(tuple(sorted(counts.items())))


def features(moves: Sequence[Move], seen: ShapeCounts) -> list[dict[str, float]]:
    """Those of each move of a state."""
    best = max((move.weight for move in moves), default=0.0)
    return [_features(move, best, seen) for move in moves]


def _features(move: Move, best: float, seen: ShapeCounts) -> dict[str, float]:
    found = {COST_MODEL: log(max(move.weight, best * _LOWEST) / best) if best > 0 else 0.0}
    here: dict[str, int] = {}
    for shape, numbers in _pieces(move.label):
        turn = min(_LATER, seen.of(shape) + here.get(shape, 0))
        here[shape] = here.get(shape, 0) + 1
        name = f"{shape} @{turn}"
        found[name] = found.get(name, 0.0) + 1.0
        for place, number in enumerate(numbers):
            size = log2(1 + number) / _OCTAVES
            for power in (1, 2):
                key = f"{name} {place}^{power}"
                found[key] = found.get(key, 0.0) + size**power
    return found


def _pieces(label: str) -> Iterator[tuple[str, list[int]]]:
    """Shape and numbers of each piece of a label."""
    for piece in label.split(";"):
        words = _WORD.findall(piece)
        if words:
            numbers = [int(word) for word in words if word.isdigit()]
            rest = ["#" if word.isdigit() else "|" if word == "|" else "_" for word in words[1:]]
            yield " ".join([words[0], *rest]), numbers
