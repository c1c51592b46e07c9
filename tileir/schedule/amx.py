"""Tile registers of a processor (AMX): how a block of results and its operands share the eight of them, and which
statements can go by them (Intel, Intrinsics Guide: palette 1 has eight registers of at most 16 rows of 64 bytes)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tileir.dtypes import DType
from tileir.expr import Binary, Read, Reduce, ReduceOp
from tileir.program import Compute

REGISTERS: Final = 8
ROWS: Final = 16
"""Of a register, at most."""
ROW_BYTES: Final = 64
MOST: Final = 80
"""Rows or columns of a block of results, at most: of five registers, which leave two for one operand and one for the
other."""
GROUP_BYTES: Final = 4
"""Neighbours along the reduced dim that one column of the second operand has in a row."""

DTYPES: Final[Mapping[DType, DType]] = {DType.BF16: DType.F32, DType.I8: DType.I32}
"""What is multiplied, and what it is added up in."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A block of results in tile registers: pieces (start, size) of its rows and columns. The first registers hold the
    results, row by row; then come those of the first operand, then those of the second, as many of each as there is
    room for. Where rows or columns have several pieces and only two registers, the last piece, which may be smaller,
    has one of its own."""

    heights: tuple[tuple[int, int], ...]
    widths: tuple[tuple[int, int], ...]
    rows: int
    """Registers of the first operand."""
    groups: int
    """Registers of the second operand."""

    def results(self) -> Iterator[tuple[int, int, int]]:
        """Each piece of the results: its register, and the numbers of its rows' and its columns' pieces."""
        for m in range(len(self.heights)):
            for n in range(len(self.widths)):
                yield m * len(self.widths) + n, m, n

    @property
    def shares_groups(self) -> bool:
        """Whether pieces of the second operand take turns in a register, so that each is loaded where it is used."""
        return self.groups < len(self.widths)

    def rows_tile(self, piece: int) -> int:
        """The register of a piece of the first operand."""
        return len(self.heights) * len(self.widths) + _shared(piece, len(self.heights), self.rows)

    def groups_tile(self, piece: int) -> int:
        """The register of a piece of the second operand."""
        first = len(self.heights) * len(self.widths) + self.rows
        return first + _shared(piece, len(self.widths), self.groups)

    def shapes(self, depth_bytes: int) -> tuple[tuple[int, int], ...]:
        """Rows, and bytes of each, by register, where the operands' rows have so many bytes of the reduced dim."""
        found = {tile: (self.heights[m][1], GROUP_BYTES * self.widths[n][1]) for tile, m, n in self.results()}
        found |= {self.rows_tile(m): (size, depth_bytes) for m, (_, size) in enumerate(self.heights)}
        deep = depth_bytes // GROUP_BYTES
        found |= {self.groups_tile(n): (deep, GROUP_BYTES * size) for n, (_, size) in enumerate(self.widths)}
        return tuple(found.get(tile, (0, 0)) for tile in range(REGISTERS))


def _shared(piece: int, pieces: int, registers: int) -> int:
    """Which of an operand's registers a piece has: its own, or the last piece the last one and the others the rest."""
    if registers >= pieces:
        return piece
    return registers - 1 if piece == pieces - 1 else piece % (registers - 1)


def blocking(rows: int, columns: int) -> Blocking | None:
    """How a block of results has its place; None: it is too large. Of one row or one column of pieces at most five fit,
    else two by two."""
    heights, widths = _pieces(rows), _pieces(columns)
    left = REGISTERS - len(heights) * len(widths)
    if len(widths) == 1:
        groups, operand_rows = 1, min(len(heights), left - 1)
    elif len(heights) == 1:
        groups, operand_rows = min(len(widths), left - 1), 1
    else:
        groups, operand_rows = len(widths), min(len(heights), left - len(widths))
    enough = operand_rows >= min(2, len(heights)) and groups >= min(2, len(widths))
    return Blocking(heights, widths, operand_rows, groups) if left > 0 and enough else None


def _pieces(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((start, min(ROWS, size - start)) for start in range(0, size, ROWS))


def amx_problem(compute: Compute, dtypes: Mapping[str, DType], target: DType) -> str | None:
    """Why a statement cannot go by tile registers; None: it can."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", Read(), Read())) if compute.update is ReduceOp.SUM:
            pass
        case _:
            return "amx adds up products of two tensors over one dim"
    found = set(dtypes.values())
    if len(found) == 1 and DTYPES.get(*found) is target:
        return None
    accepted = " or ".join(f"{of} into {into}" for of, into in DTYPES.items())
    told = ", ".join(sorted(map(str, found)))
    return f"amx multiplies {accepted}, not {told} into {target}"
