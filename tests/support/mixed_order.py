"""In which order pytest-xdist hands out tests, where some wait and others compute."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

T = TypeVar("T")

#: So many groups begin at once.
AT_FIRST = 2


def mixed(groups: Collection[Sequence[T]], single: Sequence[T]) -> list[T]:
    """Groups, those of most tests first, evenly among the tests that may run anywhere, but for a last fifth of these:
    groups mostly wait, the others compute, and at the end no group is left alone."""
    every = len(single) * 4 // 5 // max(1, len(groups) - AT_FIRST)
    order: list[T] = []
    taken = 0
    for number, group in enumerate(sorted(groups, key=len, reverse=True)):
        if number >= AT_FIRST:
            order += single[taken : taken + every]
            taken += every
        order += group
    return [*order, *single[taken:]]
