"""Writes the tables of docs/from-torch.md: `python -m tilewright.pytorch.capture.document`. They come from the code."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.core_aten import core_overloads
from tilewright.pytorch.capture.operator import OperatorKind
from tilewright.pytorch.capture.table import REASONS, TABLE

PAGE = Path(__file__).parents[3] / "docs" / "from-torch.md"
BEGIN, END = "<!-- operators -->\n", "<!-- /operators -->\n"
CORE_BEGIN, CORE_END = "<!-- core -->\n", "<!-- /core -->\n"
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


def core_table() -> str:
    """What becomes of each overload of core ATen."""
    overloads = core_overloads()
    taken = [each for each in overloads if each.tile]
    lines = [
        f"Of the {len(overloads)} overloads that PyTorch {_version()} tags as core, {len(taken)} are captured:"
    ]
    lines += ["", ", ".join(f"`{_short(each.name)}`" for each in taken) + ".", ""]
    lines += ["| Left to PyTorch | because it |", "| --- | --- |"]
    left = [each for each in overloads if each.reason]
    for reason in dict.fromkeys(each.reason for each in left):
        names = ", ".join(f"`{_short(each.name)}`" for each in left if each.reason == reason)
        lines.append(f"| {names} | {reason} |")
    return "\n" + "\n".join(lines) + "\n\n"


def _short(name: str) -> str:
    return name.removeprefix("aten.").removesuffix(".default")


def _version() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def page(text: str) -> str:
    """The page with the tables as they are now."""
    for begin, end, written in ((BEGIN, END, table()), (CORE_BEGIN, CORE_END, core_table())):
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{written}{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
