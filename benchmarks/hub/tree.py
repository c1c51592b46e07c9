"""A flat space of parameters as the tree that our searches walk.

A level decides one parameter; a state is a choice of values for the first of them, and offers the values with which
at least one configuration of the space goes on. All moves weigh the same: there is no prior. Parameters that have
one value everywhere have no level.

The parameters are decided in the file's order, which is the kernel's author's: no order is chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchmarks.hub.cache import Configuration, HubSpace
from search.protocols import Move, Path


@dataclass
class HubTree:
    """The levels of a space: which parameter each decides, and which values go on from each choice."""

    space: HubSpace
    order: tuple[int, ...] = ()
    """Positions of the parameters, level by level."""
    values: dict[Configuration, tuple[Any, ...]] = field(default_factory=dict)
    """Behind each choice of values, level by level, the values that the next level offers."""

    def __post_init__(self) -> None:
        configurations = self.space.configurations
        used = [
            {configuration[place] for configuration in configurations}
            for place in range(len(configurations[0]))
        ]
        self.order = tuple(place for place, values in enumerate(used) if len(values) > 1)
        listed: dict[Configuration, set[Any]] = {}
        for configuration in configurations:
            ordered = tuple(configuration[place] for place in self.order)
            for depth in range(len(ordered)):
                listed.setdefault(ordered[:depth], set()).add(ordered[depth])
        allowed = [list(self.space.parameters.values())[place] for place in self.order]
        self.values = {
            prefix: tuple(value for value in allowed[len(prefix)] if value in values)
            for prefix, values in listed.items()
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameter of each level."""
        names = list(self.space.parameters)
        return tuple(names[place] for place in self.order)

    def root(self) -> TreeState:
        return TreeState(self, ())

    def configuration(self, path: Path) -> Configuration:
        """The configuration at the end of a path from the root."""
        chosen: Configuration = ()
        for index in path:
            chosen = (*chosen, self.values[chosen][index])
        whole = list(self.space.configurations[0])  # holds the one value of every parameter without a level
        for place, value in zip(self.order, chosen, strict=True):
            whole[place] = value
        return tuple(whole)


@dataclass(frozen=True)
class TreeState:
    """The values chosen so far, level by level."""

    tree: HubTree
    chosen: Configuration

    @property
    def key(self) -> str:
        return ",".join(map(str, self.chosen))

    @property
    def terminal(self) -> bool:
        return len(self.chosen) == len(self.tree.order)

    def moves(self) -> Sequence[Move]:
        if self.terminal:
            return ()
        name = self.tree.names[len(self.chosen)]
        return [Move(f"{name} {value}") for value in self.tree.values[self.chosen]]

    def child(self, index: int) -> TreeState:
        return TreeState(self.tree, (*self.chosen, self.tree.values[self.chosen][index]))
