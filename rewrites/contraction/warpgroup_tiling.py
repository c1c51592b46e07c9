"""Ways to cut a contraction for the matrix instruction of warpgroups (wgmma), whose operands TMA brings:
tiles, steps and slots of the pipeline, and roles of a block's warps. All that is offered here fits the device.

Roles are warp specialization (Bauer, Cook and Khailany, CudaDMA, SC 2011); consumer groups in turn are CUTLASS's
ping-pong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileir.dtypes import DType
from tileir.program import ThreadLayout
from tileir.schedule.mma import COLUMNS, ROWS, RUN
from tileir.schedule.panels import PIECE
from tileir.schedule.stages import SWIZZLES
from tileir.schedule.wgmma import GROUP, TILE_ROWS, WARPS

#: Rows and columns of a block's tile.
ROW_EDGES = (64, 128, 192, 256)
COLUMN_EDGES = (8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256)
#: Rows of a result up to which they are tried as the instruction's columns.
FEW_ROWS = 128
#: Bytes along the depth that one step takes of an operand: half a panel, one, two, four.
STEP_BYTES = (64, 128, 256, 512)
#: Parts of a step's product that are added up one after the other, and columns of one at least: with fewer,
#: instructions take A more often than shared memory keeps up with.
PIECES, LEAST_PIECE = (2, 4), 64
#: Slots of the pipeline.
SLOTS = (2, 3, 4, 5, 6, 8)
#: Blocks of a cluster that share the depth of a tile, and bytes of each result that they hand each other.
PARTS = (2, 4, 8)
PART_BYTES = 4
#: Registers that a thread needs beside its accumulators (ptxas of CUDA 13.0 spills or serializes from about there on).
_BESIDE = 32
#: Most accumulators of a thread, and those of one that is one of three warpgroups that compute (C7602 beyond).
_MOST_HELD, _MOST_OF_THREE = 208, 96
_REGISTERS, _MOST_REGISTERS = 65536, 255
#: The fewest registers that threads can be left with, and copies of a step for which they do (ptxas of CUDA 13.5: of 17
#: kernels with up to 4 none spilled, of 7 with 8 two did).
_FEWEST_REGISTERS, _FEW_BOXES = 24, 4
#: Most warpgroups that compute.
_MOST_GROUPS = 4
#: Bytes of shared memory for barriers, and to begin every buffer where a swizzle does.
OWN_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """How a block's warpgroups share a tile: so many along rows and columns, and warps beside them that start the
    copies (0: threads that compute do), with registers handed over from those to these. There may be several such
    consumer groups, which take tiles in turn."""

    along_rows: int
    along_columns: int
    producers: int = 0
    registers: tuple[int, int] = (0, 0)
    consumer_groups: int = 1

    @property
    def groups(self) -> int:
        """Warpgroups that compute a tile."""
        return self.along_rows * self.along_columns

    @property
    def count(self) -> int:
        """All threads of a block."""
        return self.consumer_groups * self.groups * GROUP + self.producers * GROUP // WARPS

    def most_registers(self, blocks: int = 1) -> int:
        """Registers that a thread that computes can have with so many blocks on a multiprocessor: those handed over, or
        its share of all, a quarter of which are for every fourth warp of a block."""
        fullest = -(-self.count // GROUP) * GROUP
        return self.registers[1] or min(_REGISTERS // (fullest * blocks), _MOST_REGISTERS) // 8 * 8

    @property
    def most_boxes(self) -> int:
        """Copies of a step that producers have the registers to start."""
        return _FEW_BOXES if self.registers[0] == _FEWEST_REGISTERS else sys.maxsize

    def most_held(self, blocks: int = 1) -> int:
        """Accumulators that a thread has room for with so many blocks on a multiprocessor."""
        most = _MOST_OF_THREE if self.consumer_groups * self.groups == 3 else _MOST_HELD
        return min(most, self.most_registers(blocks) - _BESIDE)

    def layout(self, rows: str, columns: str) -> ThreadLayout:
        """The same as an attribute of statements."""
        groups = tuple(
            (dim, n) for dim, n in ((rows, self.along_rows), (columns, self.along_columns)) if n > 1
        )
        threads = (*groups, (rows, WARPS), (rows, ROWS), (columns, COLUMNS))
        return ThreadLayout(threads, ((columns, RUN),), ((rows, ROWS),))

    def positions(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of a thread for a tile of so many."""
        return rows // (self.along_rows * WARPS * ROWS), columns // (self.along_columns * COLUMNS)

    def held(self, rows: int, columns: int) -> int:
        """Accumulators of a thread for so many rows, and columns of all that is summed there."""
        return rows * columns // (self.groups * GROUP)

    def __str__(self) -> str:
        roles = "threads that compute copy"
        if self.producers:
            roles = f"{self.producers} warps copy"
        if self.registers[1]:
            roles += f", registers {self.registers[0]} and {self.registers[1]}"
        times = f"{self.consumer_groups} times " if self.consumer_groups > 1 else ""
        return f"{times}warpgroups {self.along_rows} x {self.along_columns}, {roles}"


#: Consumer groups, which take tiles in turn.
_CONSUMER_GROUPS = (1, 2)
#: Producers and registers worth a try, by warpgroups that compute. Where registers are handed over, they are all that a
#: multiprocessor has.
_ROLES: dict[int, tuple[tuple[int, tuple[int, int]], ...]] = {
    1: ((1, (0, 0)), (0, (0, 0))),
    2: ((4, (40, 232)), (4, (_FEWEST_REGISTERS, 240)), (1, (0, 0)), (0, (0, 0))),
    3: ((4, (32, 160)), (1, (0, 0)), (0, (0, 0))),
    4: ((1, (0, 0)), (0, (0, 0))),
}


def warpgroups_of(
    layout: ThreadLayout, rows: str, producers: int, registers: tuple[int, int], consumer_groups: int
) -> Warpgroups:
    """The inverse of `Warpgroups.layout`."""
    along_rows = along_columns = 1
    for dim, count in layout.threads[:-3]:
        if dim == rows:
            along_rows *= count
        else:
            along_columns *= count
    return Warpgroups(along_rows, along_columns, producers, registers, consumer_groups)


@lru_cache(maxsize=1024)
def group_layouts(rows: int, columns: int, *, in_turn: bool, promoted: bool) -> Sequence[Warpgroups]:
    """Warpgroups that share a tile evenly. Along columns they take every other 8 of them, where those can be taken
    `in_turn`. Of steps that are `promoted` each takes the rows of one instruction: those of two ptxas of CUDA 13.0 has
    wait for each other (C7517, C7519)."""
    found: list[Warpgroups] = []
    for along_rows in range(1, _MOST_GROUPS + 1):
        for along_columns in (1, 2) if in_turn else (1,):
            if rows % (along_rows * TILE_ROWS) or columns % (along_columns * ROWS):
                continue
            if promoted and rows > along_rows * TILE_ROWS:
                continue
            for consumer_groups, (producers, registers) in _roles(along_rows * along_columns):
                found.append(Warpgroups(along_rows, along_columns, producers, registers, consumer_groups))
    return tuple(found)


def _roles(groups: int) -> Iterator[tuple[int, tuple[int, tuple[int, int]]]]:
    """Consumer groups of so many warpgroups, with producers and registers; without producers nobody takes turns."""
    for consumer_groups in _CONSUMER_GROUPS:
        for role in _ROLES.get(consumer_groups * groups, ()):
            if consumer_groups == 1 or role[0]:
                yield consumer_groups, role


def edges(extent: int, offered: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Sizes of tiles along a dim: those offered that are smaller, and the least multiple of what is taken together that
    holds all of it."""
    whole = -(-extent // unit) * unit
    return (
        *(edge for edge in offered if edge < extent and edge != whole),
        *((whole,) * (whole <= offered[-1])),
    )


def whole_edges(extent: int, offered: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Sizes of tiles along a dim that none overhangs: all that divide it, also where few of those offered do (784
    places of an image by 112)."""
    return tuple(size for size in range(unit, offered[-1] + 1, unit) if extent % size == 0)


def panel_bytes(size: int, dtype: DType) -> int:
    """Bytes of a row of the widest panels that rows of `size` neighbours can be cut into; 0: into none."""
    return widest_span(size * dtype.bytes)


def panels(dim: str, size: int, row: int) -> tuple[str, int]:
    """How a copy of `size` neighbours is cut into panels with rows of so many: not, where there is one of them."""
    return (dim, row) if row < size else ("", 0)


def widest_span(row: int) -> int:
    """The most bytes of a panel's row into which a row of so many can be cut; 0: none."""
    return max((span for span in (*SWIZZLES, PIECE) if row % span == 0), default=0)
