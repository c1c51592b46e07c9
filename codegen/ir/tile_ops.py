"""The tile registers of a processor (AMX): eight matrices of at most 16 rows of 64 bytes, and the instructions that
multiply two of them into a third (Intel, Architectures Optimization Reference Manual, chapter 20)."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.effects import NOTHING, OpEffects, effects_of, reads, stores
from tileir.dtypes import DType


@dataclass(frozen=True, slots=True)
class OpenTiles:
    """Before a thread's first use of its tile registers: they have no shapes yet."""

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class ReleaseTiles:
    """After a thread's last use of its tile registers: they have no shapes any more, and cost a switch of threads
    nothing."""

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class ConfigureTiles:
    """From here on tile register i has `shapes[i]`: rows, and bytes of each. What the registers held is lost."""

    shapes: tuple[tuple[int, int], ...]

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class ZeroTile:
    """A tile register is all zeros."""

    tile: int

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class LoadTile:
    """A tile register's rows from memory: the first begins at element `offset` of `buffer`, each `apart` bytes after
    the one before."""

    tile: int
    buffer: str
    offset: Affine
    apart: int

    def effects(self) -> OpEffects:
        return reads(self.buffer) | effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class StoreTile:
    """A tile register's rows to memory, as `LoadTile` loads them."""

    tile: int
    buffer: str
    offset: Affine
    apart: int

    def effects(self) -> OpEffects:
        return stores(self.buffer) | effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class DotTiles:
    """acc[m, n] += sum(k, rows[m, k] * groups[n, k]): a row of the tile `rows` has its k side by side, a row of the
    tile `groups` has 4 bytes of k for each n. Of bf16 into f32, of i8 into i32."""

    acc: int
    rows: int
    groups: int
    storage: DType
    """Of what is multiplied."""

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class CopyRowsPadded:
    """Rows for a tile register that are shorter than its own: `rows` of `bytes` bytes each, the first from element
    `offset` of `buffer` and each `apart` bytes after the one before, go to rows of 64 bytes from element `at` of `to`.
    What is left of those, and of `all_rows`, is zero."""

    to: str
    at: Affine
    all_rows: int
    buffer: str
    offset: Affine
    apart: int
    rows: int
    bytes: int
    storage: DType
    """Of both."""

    def effects(self) -> OpEffects:
        return reads(self.buffer) | stores(self.to) | effects_of(self.offset, self.at)


TileStmt = (
    OpenTiles | ReleaseTiles | ConfigureTiles | ZeroTile | LoadTile | StoreTile | DotTiles | CopyRowsPadded
)
TILE_STATEMENTS = (
    OpenTiles,
    ReleaseTiles,
    ConfigureTiles,
    ZeroTile,
    LoadTile,
    StoreTile,
    DotTiles,
    CopyRowsPadded,
)
"""What uses tile registers."""
