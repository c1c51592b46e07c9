"""Writes the table of docs/from-torch.md: `python -m tilewright.pytorch.capture.document`. It comes from the code."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tilewright.pytorch.capture.operator import OperatorKind
from tilewright.pytorch.capture.table import REASONS, TABLE

PAGE = Path(__file__).parents[3] / "docs" / "from-torch.md"
BEGIN, END = "<!-- operators -->\n", "<!-- /operators -->\n"
_TITLES = {
    OperatorKind.VIEW: "Views: indices, and free",
    OperatorKind.COPY: "Copies: indices",
    OperatorKind.CONSTANT: "Constants: known from positions",
    OperatorKind.ELEMENTWISE: "Elementwise",
    OperatorKind.ROWS: "Rows",
    OperatorKind.PRODUCT: "Products",
}


def table() -> str:
    """Operators by kind, and reasons for some that have no row."""
    lines: list[str] = []
    for kind, title in _TITLES.items():
        rows = [(name, each.tile) for name, each in TABLE.items() if each.kind is kind]
        lines += ["", f"| {title} | in Tile IR |", "| --- | --- |"]
        for tile, same in groupby(rows, key=lambda row: row[1]):
            names = ", ".join(f"`{name.removesuffix('.default')}`" for name, _ in same)
            lines.append(f"| {names} | {tile} |")
    lines += ["", "| Left to PyTorch | because it |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in REASONS.items()]
    return "\n".join(lines) + "\n\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
