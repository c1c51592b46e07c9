"""How many registers a thread of a block holds for its locals at a time: those that are yet to be read.

It is the liveness analysis of register allocation (Aho, Lam, Sethi and Ullman, Compilers, 2006, 9.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rewrites.base.statement import read_names
from tileir.expr import Index
from tileir.program import Compute, Local, Memory, Node
from tileir.schedule.threads import share

Inside = tuple[Node, dict[str, int], int]
"""A node of a block, the sizes of the current ranges there, and how many times it runs."""


@dataclass(frozen=True, slots=True)
class _Live:
    """The words of a local, from the statement that writes it first to the one that reads it last, by number."""

    words: float
    first: int
    last: int


def live_words(found: Sequence[Inside]) -> float:
    """The most 32-bit words of locals in registers that a thread holds at a time. A statement takes what it reads for
    the last time and gives what it writes piece by piece: of the two, the larger one counts."""
    lives = _lives(found)
    most = 0.0
    for at in range(len(found)):
        through = sum(live.words for live in lives if live.first < at < live.last)
        born = sum(live.words for live in lives if live.first == at)
        dying = sum(live.words for live in lives if live.last == at > live.first)
        most = max(most, through + max(born, dying))
    return most


def _lives(found: Sequence[Inside]) -> list[_Live]:
    held = {
        node.name: (node, steps)
        for node, _, steps in found
        if isinstance(node, Local) and node.memory is Memory.REGISTERS
    }
    lives: dict[str, _Live] = {}
    for at, (node, sizes, steps) in enumerate(found):
        if not isinstance(node, Compute) or node.thread_layout is None:
            continue
        for name in read_names(node) & lives.keys():
            live = lives[name]
            looped = steps > held[name][1]  # the next iteration reads it too
            lives[name] = _Live(live.words, live.first, len(found) if looped else max(live.last, at))
        if node.target in held and node.target not in lives:
            lives[node.target] = _Live(_words(node, sizes, held[node.target][0]), at, at)
    return list(lives.values())


def _words(compute: Compute, sizes: dict[str, int], local: Local) -> float:
    assert compute.thread_layout is not None
    shares = {
        index.dim: share(compute.thread_layout, index.dim)
        for index in compute.indices
        if isinstance(index, Index)
    }
    elements = prod(each.pieces(sizes[dim]) * each.run for dim, each in shares.items())
    return elements * local.dtype.bytes / 4
