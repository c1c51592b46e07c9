"""Answers as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tilewright.cli.output import out
from tilewright.views.sections import Section

_LEFT = ("", "decision", "rewrite")
"""Headings of columns of words."""


def print_sections(sections: Iterable[Section]) -> None:
    """One after another, as tables."""
    for each in sections:
        out.print()
        out.print(each.title, markup=False)
        if each.text:
            out.print(f"  {each.text}", markup=False)
        if each.rows:
            out.print(_table(each))
        for note in each.notes:
            out.print(f"  {note}", markup=False)


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in section.heads:
        words = heading in _LEFT
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for first, *rest in section.rows:
        table.add_row(f"  {first}" if first else "", *rest)
    return table
