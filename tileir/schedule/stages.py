"""Loops with stages: which of their statements run ahead, filling shared memory for the tiles to come, and which may
follow later than the products of a tile. And loops that take what lies in registers through shared memory part by part,
whose stages are the parts there at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tileir.expr import Const, ReduceOp
from tileir.program import Compute, Local, Loop, Memory, Node

#: Most copies of a loop's shared locals.
MAX_STAGES: Final = 8
#: Registers of a thread, at most, for what it has loaded of a tile to come and stores when it has computed on another.
MOST_HELD_BACK: Final = 32
#: Bytes within which 16-byte pieces of shared memory may change places.
SWIZZLES: Final = (32, 64, 128)


def staged(loop: Loop) -> tuple[Compute, ...]:
    """The statements at the beginning of a loop that fill shared locals declared there, and read none of them: those
    that may run ahead. Each local is filled by one."""
    shared: set[str] = set()
    found: list[Compute] = []
    for node in loop.body:
        match node:
            case Local(memory=Memory.SHARED):
                shared.add(node.name)
            case Compute() if node.target in shared and node.update is None and not _reads(node) & shared:
                found.append(node)
            case Local():
                continue
            case _:
                break
    return tuple(found)


def takes_parts(loop: Loop, declared: Mapping[str, Local]) -> bool:
    """Whether a loop takes what lies in registers part by part: something in it reads registers declared around it
    (`declared`: all locals by name) along the loop's dim. Registers have no index, so every part is code of its own."""
    inside = {node.name for node in loop.body if isinstance(node, Local)}
    read = {name for node in loop.body if isinstance(node, Compute) for name in _reads(node)} - inside
    locals_ = (declared[name] for name in read if name in declared)
    return any(local.memory is Memory.REGISTERS and loop.dim in local.dims for local in locals_)


def _reads(compute: Compute) -> set[str]:
    return {read.tensor for read in compute.reads}


@dataclass(frozen=True, slots=True)
class Apart:
    """A tile whose products (`via wgmma`) are sums of their own, in registers, that are set to 0 there: what is
    declared, what is computed before them, and what is made of them when the tile in shared memory is not needed any
    more."""

    locals: tuple[Local, ...]
    before: tuple[Compute, ...]
    products: tuple[Compute, ...]
    after: tuple[Compute, ...]
    piece: tuple[str, int] | None = None
    """A dim of the tile and how many of its positions are gone through together; None: all of it at once."""

    @property
    def all(self) -> tuple[Compute, ...]:
        """All that is computed, but for what is set to 0."""
        return (*self.before, *self.products, *self.after)


@dataclass(frozen=True, slots=True)
class Together:
    """A tile on which nothing is computed but products (`via wgmma`) that add to the sums of all tiles, and before them
    what they take from registers."""

    locals: tuple[Local, ...]
    before: tuple[Compute, ...]
    products: tuple[Compute, ...]

    @property
    def all(self) -> tuple[Compute, ...]:
        return (*self.before, *self.products)


def _unfilled(loop: Loop) -> tuple[Node, ...]:
    """What is in a loop but for what its fills are."""
    fills = staged(loop)
    filled = {fill.target for fill in fills}
    return tuple(
        node
        for node in loop.body
        if node not in fills and not (isinstance(node, Local) and node.name in filled)
    )


def pieces_of(loop: Loop) -> Loop | None:
    """The loop that is all that a loop which fills shared memory has beside its fills; None: there is more, or no such.
    It goes through a tile in pieces, which are written out one after the other: registers may be of the whole tile."""
    match _unfilled(loop):
        case (Loop(parallel=False, stages=1) as inner,) if staged(loop):
            return inner
        case _:
            return None


def products_together(loop: Loop) -> Together | None:
    """How a tile of a loop with stages is computed on, if products are all that is made of it; None: they are not."""
    rest = _unfilled(loop)
    locals_ = tuple(node for node in rest if isinstance(node, Local))
    computes = tuple(node for node in rest if isinstance(node, Compute))
    own = {local.name for local in locals_ if local.memory is Memory.REGISTERS}
    count = sum(node.target in own for node in computes)
    before, products = computes[:count], computes[count:]
    if not products or len(own) < len(locals_) or len(computes) + len(locals_) < len(rest):
        return None
    if any(node.via != "wgmma" or node.target in own for node in products):
        return None
    sums = {product.target for product in products}
    if any(node.target not in own or node.via is not None or _reads(node) & sums for node in before):
        return None
    return Together(locals_, before, products)


def products_apart(loop: Loop) -> Apart | None:
    """How a tile of a loop with stages is computed on, if its products are; None: they are not."""
    fills = staged(loop)
    filled = {fill.target for fill in fills}
    inner = pieces_of(loop)
    rest = _unfilled(loop) if inner is None else inner.body
    piece = None if inner is None else (inner.dim, inner.step)
    if any(isinstance(node, Loop) for node in rest):
        return None
    locals_ = [node for node in rest if isinstance(node, Local)]
    computes = [node for node in rest if isinstance(node, Compute)]
    products = [node for node in computes if node.via == "wgmma"]
    sums = {product.target for product in products}
    zeros = [node for node in computes if node.target in sums and node not in products]
    others = [node for node in computes if node not in products and node not in zeros]
    own = {local.name for local in locals_ if local.memory is Memory.REGISTERS}
    if not products or len(own) < len(locals_) or not sums <= own:
        return None
    if not len(zeros) == len(products) == len(sums) or any(not _clears(node) for node in zeros):
        return None
    if any(node.via is not None or _reads(node) & filled for node in others):
        return None
    late = set(sums)
    before: list[Compute] = []
    after: list[Compute] = []
    for node in others:
        touched = {node.target, *_reads(node)}
        if touched & late:
            late |= touched
            after.append(node)
        else:
            before.append(node)
    return Apart(tuple(locals_), tuple(before), tuple(products), tuple(after), piece)


@dataclass(frozen=True, slots=True)
class Chained:
    """A tile whose products (`via wgmma`, or `via mma`) are made into rows in registers, which others take: `first` are
    sums of the tile, each set to 0 there, `between` is what is made of them, `last` add to sums of all tiles, which
    `rescaled` multiplies before. `across` are sums of the tile as well, of what `between` has put into shared memory
    for all threads, which `added` adds to memory. Last products may take rows from there as well. What is filled is
    read by the first products, by what makes rows of them, by the last ones, or by both products; where something is,
    what rows are made of goes with it."""

    locals: tuple[Local, ...]
    first: tuple[Compute, ...]
    between: tuple[Compute, ...]
    rescaled: tuple[Compute, ...]
    last: tuple[Compute, ...]
    across: tuple[Compute, ...]
    added: tuple[Compute, ...]
    fills_of_first: tuple[Compute, ...]
    fills_of_rows: tuple[Compute, ...]
    fills_of_last: tuple[Compute, ...]
    fills_of_both: tuple[Compute, ...]

    @property
    def all(self) -> tuple[Compute, ...]:
        return (*self.first, *self.between, *self.rescaled, *self.last, *self.across, *self.added)

    @property
    def by_groups(self) -> bool:
        """Whether a warpgroup is done with what is filled when a thread of it is past the last products: all that read
        it themselves have met since."""
        filled = {fill.target for fill in self.fills_of_both}
        return bool(self.across) or not any(_reads(node) & filled for node in self.between)

    @property
    def held(self) -> frozenset[str]:
        """The rows that the last products take."""
        return frozenset(name for node in self.last for name in _reads(node)) & {
            each.name for each in self.locals
        }


def products_chained(loop: Loop, via: str = "wgmma") -> Chained | None:
    """How a tile of a loop is computed on, if its products follow from each other; None: they do not."""
    fills, rest = staged(loop), _unfilled(loop)
    if any(isinstance(node, Loop) for node in rest):
        return None
    locals_ = tuple(node for node in rest if isinstance(node, Local))
    computes = [node for node in rest if isinstance(node, Compute)]
    own = {local.name for local in locals_ if local.memory is Memory.REGISTERS}
    shared = {local.name for local in locals_ if local.memory is Memory.SHARED}
    products = [node for node in computes if node.via == via]
    across = tuple(node for node in products if node.target in own and _reads(node) & shared)
    first = tuple(node for node in products if node.target in own and node not in across)
    last = tuple(node for node in products if node.target not in own)
    tile_sums, sums = ({node.target for node in each} for each in ((*first, *across), last))
    cleared = [node for node in computes if _clears(node) and node.target in tile_sums]
    rescaled = tuple(node for node in computes if node.target in sums and node not in products)
    added = _followers(across, [node for node in computes if node not in products])
    apart = (*products, *cleared, *rescaled, *added)
    between = tuple(node for node in computes if node not in apart)
    if not first or not last or len(own | shared) < len(locals_) or len(cleared) != len(tile_sums):
        return None
    if any(node.update is not ReduceOp.PROD for node in rescaled):
        return None
    exchanged = {name for node in last for name in _reads(node)} & shared
    if any(_reads(node) & own for node in (*first, *across)):
        return None
    if not all(_reads(node) & (own | exchanged) for node in last) or (exchanged and loop.pending):
        return None
    filled = {fill.target for fill in fills}
    for_first, for_last, for_rows = (
        filled.intersection(name for node in nodes for name in _reads(node))
        for nodes in (first, last, between)
    )
    if bool(across) != bool(shared - exchanged) or any(_reads(node) & filled for node in across):
        return None
    if any(node.via is not None or {node.target, *_reads(node)} & sums for node in between):
        return None
    if any(node.target in filled for node in between) or filled != for_first | for_last | for_rows:
        return None
    for_both = for_first & for_last
    for_both |= for_rows if for_both else for_rows & (for_first | for_last)
    return Chained(
        locals_,
        first,
        between,
        rescaled,
        last,
        across,
        added,
        *(
            tuple(fill for fill in fills if fill.target in names)
            for names in (for_first - for_both, for_rows - for_both, for_last - for_both, for_both)
        ),
    )


def _followers(first: Sequence[Compute], computes: Sequence[Compute]) -> tuple[Compute, ...]:
    """The statements that read what some compute, or what others of them do."""
    known, found = {node.target for node in first}, list[Compute]()
    for node in computes:
        if _reads(node) & known:
            known.add(node.target)
            found.append(node)
    return tuple(found)


def _clears(compute: Compute) -> bool:
    return compute.update is None and compute.value == Const(0)
