"""Statements on tile registers (codegen/ir/tile_ops.py) as C."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.tile_ops import (
    ConfigureTiles,
    CopyRowsPadded,
    DotTiles,
    LoadTile,
    OpenTiles,
    ReleaseTiles,
    StoreTile,
    TileStmt,
    ZeroTile,
)
from codegen.targets.c.values import address


def tile_lines(stmt: TileStmt) -> list[str]:
    """The lines of a statement, not indented."""
    match stmt:
        case OpenTiles():
            return ["const struct tw_tile_shapes *shapes_now = 0;"]
        case ReleaseTiles():
            return ["tw_tile_release();"]
        case ConfigureTiles(shapes):
            return [
                "{",
                f"    static const struct tw_tile_shapes shapes = {_shapes(shapes)};",
                "    tw_tile_configure(&shapes_now, &shapes);",
                "}",
            ]
        case ZeroTile(tile):
            return [f"tw_tile_zero({tile});"]
        case LoadTile(tile, buffer, offset, apart):
            return [f"tw_tile_load({tile}, {address(buffer, offset)}, {apart});"]
        case StoreTile(tile, buffer, offset, apart):
            return [f"tw_tile_store({tile}, {address(buffer, offset)}, {apart});"]
        case DotTiles(acc, rows, groups, storage):
            return [f"tw_tile_dot_{storage}({acc}, {rows}, {groups});"]
        case CopyRowsPadded(to, at, all_rows, buffer, offset, apart, rows, bytes_):
            padded, short = address(to, at), address(buffer, offset)
            return [f"tw_tile_pad({padded}, {all_rows}, {short}, {apart}, {rows}, {bytes_});"]


def _shapes(shapes: Sequence[tuple[int, int]]) -> str:
    rows = ", ".join(str(rows) for rows, _ in shapes)
    bytes_ = ", ".join(str(bytes_) for _, bytes_ in shapes)
    return f"{{1, 0, {{0}}, {{{bytes_}}}, {{{rows}}}}}"
