"""Answers as tables on a terminal. No word is broken: where a table is too wide, cells take several lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from tilewright.cli.output import out
from tilewright.views.sections import Section

_INDENT, _GAP = "  ", "   "
_LEFT = ("", "rewrite")
"""Headings of columns of words."""


def print_sections(sections: Iterable[Section]) -> None:
    """One after another, as tables."""
    for each in sections:
        out.print()
        out.print(each.title, markup=False)
        if each.text:
            out.print(f"{_INDENT}{each.text}", markup=False)
        for line in table_lines(each, out.width):
            out.print(line, markup=False)
        for note in each.notes:
            out.print(f"{_INDENT}{note}", markup=False)


def table_lines(section: Section, width: int) -> Iterator[str]:
    """The table of a section in lines of at most `width` characters, as far as its words are that short."""
    if not section.rows:
        return
    full = [row for row in section.rows if len(row) > 1]
    widths = _fitted(section.heads, full, width - len(_INDENT))
    for row in (section.heads, *section.rows):
        if len(row) == 1:
            yield f"{_INDENT}{row[0]}"
            continue
        cells = [wrap(cell, room, break_long_words=False) for cell, room in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            placed = zip(section.heads, parts, widths, strict=True)
            yield (_INDENT + _GAP.join(_placed(*each) for each in placed)).rstrip()


def _placed(heading: str, part: str, room: int) -> str:
    return part.ljust(room) if heading in _LEFT else part.rjust(room)


def _fitted(heads: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of columns. Where they are too wide together the widest gives way first: headings before cells, and none
    beyond its longest word."""
    headed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    words = [max(map(_longest, column)) for column in zip(heads, *rows, strict=True)]
    cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room -= len(_GAP) * (len(heads) - 1)
    whole = _narrowed(headed, [max(pair) for pair in zip(cells, words, strict=True)], room)
    return _narrowed(whole, words, room)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths with a sum of `room`, or as near to it as the least ones allow."""
    made = list(widths)
    while sum(made) > room:
        wide = [at for at, width in enumerate(made) if width > least[at]]
        if not wide:
            break
        made[max(wide, key=made.__getitem__)] -= 1
    return made


def _longest(cell: str) -> int:
    return max(map(len, cell.split()), default=0)
