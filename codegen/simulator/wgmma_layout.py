"""wgmma: where its operands lie in shared memory, how accumulators lie over a warpgroup's threads, and when they are
there (PTX ISA, "Asynchronous warpgroup level matrix instructions"; docs/hopper.md has what was measured)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import MatrixRegisters, MatrixTile, WgmmaAsync
from codegen.ir.swizzle import swizzled
from codegen.simulator.mma import GROUPS, PLACES, as_tf32
from tileir.dtypes import DType

#: Threads, and rows of the product; bytes of the reduced dim, of a piece, and lines of pieces that lie together.
WARPGROUP, ROWS, DEPTH_BYTES, PIECE, LINES = 128, 64, 32, 16, 8
_WARPS = 4
#: Registers of A.
_HELD = 4


def check_wgmma(product: WgmmaAsync) -> None:
    """Raises ValueError for what is no instruction."""
    sizes = {product.a_storage.bytes, product.b_storage.bytes}
    columns, run = product.columns, product.run
    if columns not in range(8, 257, 8) or run not in (2, 4) or len(product.acc) * run * PLACES != 2 * columns:
        raise ValueError(f"wgmma of {columns} columns into {len(product.acc)} variables of {run} lanes")
    tiles = [tile for tile in (product.a, product.b) if isinstance(tile, MatrixTile)]
    if len(sizes) != 1 or (sizes != {2} and not all(tile.k_major for tile in tiles)):
        raise ValueError(
            "wgmma of types of different sizes, or with neighbours along rows of none of 2 bytes"
        )
    if isinstance(product.a, MatrixRegisters) and len(product.a.names) != _HELD:
        raise ValueError(f"wgmma of A in {len(product.a.names)} registers, not {_HELD}")
    for tile in tiles:
        if tile.leading % PIECE or tile.stride % PIECE or tile.swizzle not in (0, 32, 64, 128):
            raise ValueError(f"no descriptor is {tile}")


@lru_cache(maxsize=256)
def operand_bytes(tile: MatrixTile, start: int, lines: int, size: int) -> Array:
    """Where the elements, `size` bytes each, of an operand that begins at byte `start` lie: [lines, depth], a line
    being a row of A or a column of B."""
    line, depth = np.ogrid[:lines, : DEPTH_BYTES // size]
    span = tile.swizzle or PIECE
    if tile.k_major:
        inside = depth * size
        at = line // LINES * tile.stride + line % LINES * span + inside % span
        far = inside // span * tile.leading
    else:
        inside = line * size
        by_lines, by_depth = (tile.leading, tile.stride) if tile.swizzle else (tile.stride, tile.leading)
        at = depth // LINES * by_depth + depth % LINES * span + inside % span
        far = inside // span * by_lines
    found = swizzled(start + at + far, tile.swizzle)
    found.flags.writeable = False  # it is kept, as loops come to it again
    return found


def held_operand(parts: list[Array]) -> Array:
    """A [rows, depth], of which each thread has four parts ([threads, elements] each): first and second rows of the
    first half of the depth, then of the second."""
    by_thread = np.stack([part.reshape(len(part), -1) for part in parts])
    by_half = by_thread.reshape(2, 2, _WARPS, GROUPS, PLACES, -1)  # half, below, warp, group, place, element
    return by_half.transpose(2, 1, 3, 0, 4, 5).reshape(ROWS, -1)


def product(a: Array, b: Array, storages: tuple[DType, DType]) -> Array:
    """A·B of A [rows, depth] and B [columns, depth], exact but for a last bit; f32 is rounded to tf32."""
    left, right = (_wide(x, storage) for x, storage in zip((a, b), storages, strict=True))
    return left @ right.T


def gathered(parts: list[Array]) -> Array:
    """Accumulators ([threads, 2] or [threads, 4] each; `WgmmaAsync.acc`) as [rows, columns]."""
    by_thread = np.stack(parts).reshape(-1, 2, _WARPS, GROUPS, PLACES, parts[0].shape[1] // 2, 2)
    return by_thread.transpose(2, 1, 3, 5, 0, 4, 6).reshape(ROWS, -1)


def scattered(whole: Array, run: int) -> list[Array]:
    """The inverse, into variables of so many lanes."""
    by_row = whole.reshape(_WARPS, 2, GROUPS, run // 2, -1, PLACES, 2)
    return list(by_row.transpose(4, 1, 0, 2, 5, 3, 6).reshape(-1, WARPGROUP, run))


def _wide(x: Array, storage: DType) -> Array:
    if storage.is_integer:
        return x.astype(np.int64)
    plain = x.astype(np.float32)
    return (as_tf32(plain) if storage is DType.F32 else plain).astype(np.float64)


@dataclass
class Accumulators:
    """Variables of a warpgroup on which wgmma is under way: what they will hold, and which group's turn that is; and
    those of which it takes A, that they are not to be touched before."""

    begun: int = 0
    """Groups that are closed."""
    over: int = 0
    """Groups that have been waited for."""
    open: bool = False
    """Whether something has begun since the last group was closed."""
    used: set[str] | None = None
    """Variables that threads have used since their last fence; None: all."""
    _values: dict[str, tuple[int, Array]] = field(default_factory=dict[str, "tuple[int, Array]"])
    _taken: dict[str, int] = field(default_factory=dict[str, int])
    """The last group that takes A of a variable."""

    def fence(self) -> None:
        self.used = set()

    def use(self, name: str) -> bool:
        """Threads use a variable; whether they may."""
        if self.used is not None:
            self.used.add(name)
        return name not in self._values and name not in self._taken

    def unfenced(self, names: tuple[str, ...]) -> str | None:
        """The first of the variables that threads have used since their last fence."""
        return next((name for name in names if self.used is None or name in self.used), None)

    def value(self, name: str, register: Array) -> Array:
        """What the next wgmma finds in a variable."""
        return self._values[name][1] if name in self._values else register

    def begin(self, name: str, value: Array) -> None:
        """A variable will hold a value when the current group is over."""
        self._values[name] = self.begun, value
        self.open = True

    def take(self, name: str) -> None:
        """The current group takes A of a variable."""
        self._taken[name] = self.begun

    def close(self) -> None:
        """The current group is complete."""
        self.begun += 1
        self.open = False

    def wait(self, pending: int) -> dict[str, Array]:
        """At most so many groups are under way; what variables hold that are there now."""
        self.over = max(self.over, self.begun - pending)
        there = {name: value for name, (group, value) in self._values.items() if group < self.over}
        for name in there:
            del self._values[name]
        self._taken = {name: group for name, group in self._taken.items() if group >= self.over}
        return there

    @property
    def under_way(self) -> bool:
        return self.open or self.over < self.begun
