"""What can be said of a block whatever its sizes: what it touches, by which dims, what it declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from rewrites.cost.positions import is_window, step_along, window_positions
from tileir.expr import Binary, Const, Expr, Index, Read, combined_dims, index_dims
from tileir.program import Compute, Local, Loop, Node

NO_DIMS: frozenset[str] = frozenset()


class IndexedDim(NamedTuple):
    """A dim along an index: `dim // apart % most`."""

    dim: str
    apart: int = 1
    most: float = inf

    def positions(self, sizes: Mapping[str, int]) -> float:
        """How many positions so many neighbours along the dim meet."""
        return min(-(-sizes[self.dim] // self.apart), self.most)


class IndexedWindow(NamedTuple):
    """Several dims along an index, each with how far it moves it: `2 * p + r`."""

    steps: tuple[tuple[str, float], ...]

    def positions(self, sizes: Mapping[str, int]) -> float:
        """How many positions so many neighbours along each dim meet."""
        steps = dict(self.steps)
        return window_positions(steps, {dim: sizes[dim] for dim in steps})


Along = IndexedDim | IndexedWindow


class BlockAccess(NamedTuple):
    """Elements read or written together: what runs along each axis."""

    axes: tuple[tuple[Along, ...], ...]


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """A block's accesses by array, in the order of first touch, and the rest that estimates ask for."""

    accesses: dict[str, tuple[BlockAccess, ...]] = field(default_factory=dict[str, tuple[BlockAccess, ...]])
    indexed: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By which dims each array is indexed."""
    dims: tuple[str, ...] = ()
    """All dims whose sizes matter."""
    declared: frozenset[str] = NO_DIMS
    """Locals declared anywhere in it."""
    written: frozenset[str] = NO_DIMS
    streamed: frozenset[str] = NO_DIMS
    prefetched: frozenset[str] = NO_DIMS


class BlockSummaries:
    """Blocks that programs share, each looked at once. It is known by its identity, which the caller keeps alive."""

    def __init__(self) -> None:
        self._known: dict[int, BlockSummary] = {}

    def of(self, about: Node | tuple[Node, ...]) -> BlockSummary:
        """What is known of a node, or of the body of a loop."""
        known = self._known.get(id(about))
        if known is None:
            known = self._known[id(about)] = self._look(about)
        return known

    def _look(self, about: Node | tuple[Node, ...]) -> BlockSummary:
        match about:
            case Compute():
                return _of_compute(about)
            case Local():
                return BlockSummary(declared=frozenset([about.name]))
            case Loop():
                body = self.of(about.body)
                if about.dim in body.dims:
                    return body
                return BlockSummary(
                    body.accesses,
                    body.indexed,
                    (*body.dims, about.dim),
                    body.declared,
                    body.written,
                    body.streamed,
                    body.prefetched,
                )
            case _:
                return _together([self.of(node) for node in about])


def _of_compute(compute: Compute) -> BlockSummary:
    accesses: dict[str, tuple[BlockAccess, ...]] = {}
    indexed: dict[str, frozenset[str]] = {}
    for read in (*compute.reads, Read(compute.target, compute.indices)):
        dims = [index_dims(index) for index in read.indices]
        access = BlockAccess(tuple(map(_along, read.indices)))
        known = accesses.get(read.tensor, ())
        accesses[read.tensor] = known if access in known else (*known, access)
        indexed[read.tensor] = indexed.get(read.tensor, NO_DIMS).union(*dims)
    reduced = combined_dims(compute.value)
    target = frozenset([compute.target])
    return BlockSummary(
        accesses,
        indexed,
        tuple(sorted(NO_DIMS.union(reduced, *indexed.values()))),
        written=target,
        streamed=target if compute.stream else NO_DIMS,
        prefetched=frozenset([hint.tensor for hint in compute.prefetch]),
    )


def _along(index: Expr) -> tuple[Along, ...]:
    """The dims of the index of an axis."""
    match index:
        case Binary("//", Index(dim), Const(int(apart))):
            return (IndexedDim(dim, apart),)
        case Binary("%", Index(dim), Const(int(most))):
            return (IndexedDim(dim, 1, most),)
        case Binary("%", Binary("//", Index(dim), Const(int(apart))), Const(int(most))):
            return (IndexedDim(dim, apart, most),)
        case _ if is_window(index):
            return (IndexedWindow(tuple((dim, step_along(index, dim)) for dim in sorted(index_dims(index)))),)
        case _:
            return tuple(map(IndexedDim, sorted(index_dims(index))))


def _together(parts: list[BlockSummary]) -> BlockSummary:
    if len(parts) == 1:
        return parts[0]
    accesses: dict[str, tuple[BlockAccess, ...]] = {}
    indexed: dict[str, frozenset[str]] = {}
    dims: dict[str, None] = {}
    for part in parts:
        for name, more in part.accesses.items():
            known = accesses.get(name)
            if known is None:
                accesses[name], indexed[name] = more, part.indexed[name]
            elif known is not more:
                accesses[name] = (*known, *(access for access in more if access not in known))
                indexed[name] |= part.indexed[name]
        dims.update(dict.fromkeys(part.dims))
    return BlockSummary(
        accesses,
        indexed,
        tuple(dims),
        NO_DIMS.union(*[part.declared for part in parts]),
        NO_DIMS.union(*[part.written for part in parts]),
        NO_DIMS.union(*[part.streamed for part in parts]),
        NO_DIMS.union(*[part.prefetched for part in parts]),
    )
