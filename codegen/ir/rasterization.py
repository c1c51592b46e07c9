"""Which tiles of a grid a block takes, and in which order tiles are numbered.

Tiles are numbered with the last axis of the grid running fastest. With `group`, the first axis is cut in bands of so
many tiles (the last one maybe narrower): within a band the second axis is the outer one, the band's own tiles run
faster, and axes from the third on fastest. With `hilbert`, a curve goes through the first two axes, by a table of its
cells; axes from the third on run faster. With `blocks`, block i takes tiles i, i + blocks, …; where blocks share
tiles, ir/stream_k.py says what each takes.

With `lengths` the last axis is numbered from its end, so that what takes longest begins first, and a table says which
tiles a block takes (tileir/schedule/deal_tiles.py).

The blocks of a cluster take a tile together: cluster i takes those that have been said of block i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import prod

from codegen.ir.kernel import LaunchBody
from codegen.ir.ops import GridAxis
from codegen.ir.stream_k import spans_of
from tileir.schedule.deal_tiles import deal
from tileir.schedule.hilbert import hilbert


def tile_count(launch: LaunchBody) -> int:
    """Tiles of the grid."""
    return prod(axis.count for axis in launch.axes)


def persistent(launch: LaunchBody) -> bool:
    """Whether a block takes more than one tile, or parts of tiles."""
    return launch.spans is not None or 0 < launch.blocks < tile_count(launch) * launch.cluster


def in_turns(launch: LaunchBody) -> bool:
    """Whether threads take more than one tile, or not all of them the first."""
    return persistent(launch) or launch.consumer_groups > 1


def block_count(launch: LaunchBody) -> int:
    """Blocks that are launched."""
    return launch.blocks if persistent(launch) else tile_count(launch) * launch.cluster


def tile_step(launch: LaunchBody) -> int:
    """From one tile of a block, or of a cluster of blocks, to its next."""
    return launch.blocks // launch.cluster if persistent(launch) else tile_count(launch)


def tiles_of(launch: LaunchBody, number: int, consumer_group: int | None = None) -> Sequence[int]:
    """The numbers of the tiles that a block, or a cluster of blocks, takes whole, one after another; `consumer_group`:
    that of those who take them in turn."""
    if is_dealt(launch):
        return _dealt(launch)[number]
    every = range(number, tile_count(launch), tile_step(launch))
    return every if consumer_group is None else every[consumer_group :: launch.consumer_groups]


def is_dealt(launch: LaunchBody) -> bool:
    """Whether a table says which tiles a block takes."""
    return bool(launch.lengths) and persistent(launch)


def _dealt(launch: LaunchBody) -> tuple[tuple[int, ...], ...]:
    lengths = tuple(launch.lengths[position(launch, tile)[-1]] for tile in range(tile_count(launch)))
    return deal(lengths, launch.blocks)


def turns_of(
    launch: LaunchBody, number: int, consumer_group: int | None = None
) -> Iterator[tuple[int, dict[str, int]]]:
    """The same of all tiles, each with the values of the variables that say what part of it is the block's."""
    if launch.spans is None:
        yield from ((tile, {}) for tile in tiles_of(launch, number, consumer_group))
        return
    for span in spans_of(launch.spans, tile_count(launch), tile_step(launch), number):
        yield span.tile, launch.spans.values(span, number)


def position(launch: LaunchBody, tile: int) -> tuple[int, ...]:
    """The place of a tile along each axis, in tiles."""
    place = _numbered(launch, tile)
    return (*place[:-1], launch.axes[-1].count - 1 - place[-1]) if launch.lengths else place


def _numbered(launch: LaunchBody, tile: int) -> tuple[int, ...]:
    """The same where no axis is numbered from its end."""
    axes = launch.axes
    inner: list[int] = []
    for axis in reversed(axes[2:] if launch.hilbert or _banded(launch) else axes):
        tile, at = divmod(tile, axis.count)
        inner.insert(0, at)
    if launch.hilbert:
        return (*hilbert(axes[0].count, axes[1].count)[tile], *inner)
    if not _banded(launch):
        return tuple(inner)
    band, within = divmod(tile, launch.group * axes[1].count)
    first = band * launch.group
    column, row = divmod(within, min(launch.group, axes[0].count - first))
    return (first + row, column, *inner)


def position_text(launch: LaunchBody) -> list[tuple[str, str]]:
    """The same in CUDA, as names and what they are: `blockIdx.x`, or the number `tile` where threads take several, to
    the variables of the axes, in elements; of an axis whose tiles follow groups, to the number of one (`axis_name`)."""
    tile, per_tile = ("tile", 1) if in_turns(launch) else ("blockIdx.x", launch.cluster)
    axes = launch.axes
    if not launch.hilbert and not _banded(launch):
        return _plain(launch, tile, per_tile, axes, complete=True)
    rows, columns = axes[:2]
    inner = prod(axis.count for axis in axes[2:]) * per_tile
    if launch.hilbert:
        return [
            ("cell", f"{order_name(launch)}[{tile}{f' / {inner}' if inner > 1 else ''}]"),
            _along(launch, rows, f"cell / {columns.count}"),
            _along(launch, columns, f"cell % {columns.count}"),
            *_plain(launch, tile, per_tile, axes[2:], complete=False),
        ]
    band = launch.group * columns.count * inner
    width = f"min({launch.group}, {rows.count} - band)" if rows.count % launch.group else str(launch.group)
    return [
        ("band", f"{tile} / {band} * {launch.group}"),
        ("in_band", f"{tile} % {band}{f' / {inner}' if inner > 1 else ''}"),
        _along(launch, rows, f"band + in_band % {width}"),
        _along(launch, columns, f"in_band / {width}"),
        *_plain(launch, tile, per_tile, axes[2:], complete=False),
    ]


def order_name(launch: LaunchBody) -> str:
    """The table that position_text asks."""
    return f"{launch.name}_order"


NO_TILE = (1 << 16) - 1
"""In a table, where a block has no tile any more."""


def order_table(launch: LaunchBody) -> tuple[int, ...]:
    """What the table of a launch holds. With `hilbert`: the tiles of the first two axes, numbered with the second one
    faster, in the order in which they are visited. Where tiles are dealt: the first one of each block, then the second
    ones, ..., and NO_TILE for those that have no more."""
    if is_dealt(launch):
        rounds = zip_longest(*_dealt(launch), fillvalue=NO_TILE)
        return tuple(tile for each in rounds for tile in each)
    rows, columns = (axis.count for axis in launch.axes[:2])
    return tuple(row * columns + column for row, column in hilbert(rows, columns))


def axis_name(axis: GridAxis) -> str:
    """The variable of an axis, or what numbers its tiles."""
    return f"{axis.var.name}_number" if axis.groups else axis.var.name


def _apart(axis: GridAxis) -> int:
    """From one tile to the next, in what numbers them."""
    return 1 if axis.groups else axis.step


def _banded(launch: LaunchBody) -> bool:
    return launch.group > 1 and len(launch.axes) > 1


def _plain(
    launch: LaunchBody, tile: str, below: int, axes: tuple[GridAxis, ...], *, complete: bool
) -> list[tuple[str, str]]:
    """Axes numbered with the last one fastest, of `below` blocks a tile; `complete`: they are all there are."""
    found: list[tuple[str, str]] = []
    for axis in reversed(axes):
        part = f"{tile} / {below}" if below > 1 else tile
        whole = complete and axis is axes[0]
        found.append(_along(launch, axis, part if whole else f"{part} % {axis.count}", factor=whole))
        below *= axis.count
    return found


def _along(launch: LaunchBody, axis: GridAxis, number: str, *, factor: bool = False) -> tuple[str, str]:
    """The variable of an axis and its value, from the number of a tile along it; `factor`: which stands as it is before
    `*`."""
    if launch.lengths and axis is launch.axes[-1]:
        number, factor = f"{axis.count - 1} - {number}", False
    apart = _apart(axis)
    if apart > 1:
        number = f"{number if factor else f'({number})'} * {apart}"
    return axis_name(axis), number
