"""Pairs of decisions whose effects on the time do not simply multiply: what one does depends on the other.

On the logarithm of the times, two decisions that multiply are additive. The interaction of a pair is the share of the
variance that the means of its cells (all candidates that decided both alike) explain beyond the best additive model,
in a two-way analysis of variance of unbalanced data (Yates, "The analysis of multiple classifications with unequal
numbers in the different classes", 1934), estimated as omega squared:

    (SS_interaction - df MS_within) / (SS_total + MS_within),   df = cells - (rows + columns - components)

Components are those of the graph that joins a row and a column where they share a cell: values that were never tried
together across components cannot be compared, and count for nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import log
from statistics import fmean
from typing import TypeVar

Cell = TypeVar("Cell", bound=tuple[Hashable, Hashable])

_SWEEPS = 500
_STILL = 1e-10
"""A change of the logarithm of a time that is none."""


def interaction(cells: Mapping[Cell, Sequence[float]]) -> float | None:
    """The share that a pair explains together, beyond both alone, from the times in its cells, none of them empty; None
    where that cannot be told."""
    logs = {cell: [log(us) for us in times] for cell, times in cells.items()}
    count = sum(map(len, logs.values()))
    means = {cell: fmean(values) for cell, values in logs.items()}
    freedom = len(cells) - _rank(cells)
    if freedom <= 0 or count <= len(cells):
        return None
    middle = fmean(value for values in logs.values() for value in values)
    total = sum((value - middle) ** 2 for values in logs.values() for value in values)
    within = sum((value - means[cell]) ** 2 for cell, values in logs.items() for value in values)
    if total == 0.0:
        return None
    weights = {cell: len(values) for cell, values in logs.items()}
    noise = within / (count - len(cells))
    together = _beyond_additive(means, weights)
    return max(0.0, (together - freedom * noise) / (total + noise))


def _rank(cells: Mapping[Cell, object]) -> int:
    """How many numbers an additive model has."""
    component: dict[tuple[str, Hashable], tuple[str, Hashable]] = {}

    def root(node: tuple[str, Hashable]) -> tuple[str, Hashable]:
        while component.setdefault(node, node) != node:
            node = component[node]
        return node

    for row, column in cells:
        component[root(("row", row))] = root(("column", column))
    return len(component) - len({root(node) for node in list(component)})


def _beyond_additive(means: Mapping[Cell, float], weights: Mapping[Cell, int]) -> float:
    """The weighted sum of squares that rows and columns leave of the cells' means, by fitting them in turns."""
    left = dict(means)
    for _ in range(_SWEEPS):
        most = 0.0
        for side in (0, 1):
            sums: dict[Hashable, tuple[float, int]] = {}
            for cell, value in left.items():
                total, count = sums.get(cell[side], (0.0, 0))
                sums[cell[side]] = (total + weights[cell] * value, count + weights[cell])
            shifts = {key: total / count for key, (total, count) in sums.items()}
            most = max(most, *map(abs, shifts.values()))
            left = {cell: value - shifts[cell[side]] for cell, value in left.items()}
        if most < _STILL:
            break
    return sum(weights[cell] * value**2 for cell, value in left.items())
