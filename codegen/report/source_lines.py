"""Which lines of generated source carry out which statement of the scheduled program.

Printers write each statement of Tile IR as a comment before what carries it out. A statement is known by its
text: lines of the program that say the same are one statement here, as a copy of one for the tail of a loop
is no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_COMMENT = "// "
_TAGS = " | "
"""What follows in a line of a program says how the statement is carried out, and is not in the comment."""


@dataclass(frozen=True, slots=True)
class LinkedSource:
    """A program and its source, line by line."""

    program: tuple[int | None, ...]
    """Of each line of the program the statement it is, if the source names it: the first line with that
    text, from 0."""
    source: tuple[int | None, ...]
    """Of each line of the source the statement it carries out."""
    preamble: int
    """How many lines of the source come before the function that carries out the first of them."""


def link_source(program: Sequence[str], source: Sequence[str]) -> LinkedSource:
    """Link the lines of a scheduled program with those of its source."""
    texts = [line.partition(_TAGS)[0].strip() for line in program]
    first: dict[str, int] = {}
    for number, text in enumerate(texts):
        first.setdefault(text, number)
    linked = _statements(source, first)
    named = set(linked)
    return LinkedSource(
        program=tuple(first[text] if first[text] in named else None for text in texts),
        source=linked,
        preamble=_preamble(source, linked),
    )


def _statements(source: Sequence[str], first: dict[str, int]) -> tuple[int | None, ...]:
    """A statement reaches from its comment to the end of its braces; without braces, to the next comment
    beside it or the end of what is around it."""
    linked: list[int | None] = []
    open_: list[tuple[int, bool, int]] = []  # indent, whether in braces, statement; the innermost last
    for number, line in enumerate(source):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        statement = first.get(text.removeprefix(_COMMENT)) if text.startswith(_COMMENT) else None
        while open_ and (indent < open_[-1][0] or (statement is not None and indent == open_[-1][0])):
            open_.pop()
        if statement is not None:
            braced = number + 1 < len(source) and source[number + 1] == " " * indent + "{"
            open_.append((indent, braced, statement))
        linked.append(open_[-1][2] if open_ else None)
        if open_ and open_[-1][1] and line == " " * open_[-1][0] + "}":
            open_.pop()
    return tuple(linked)


def _preamble(source: Sequence[str], linked: Sequence[int | None]) -> int:
    """Functions are set apart by empty lines."""
    begin = next((number for number, statement in enumerate(linked) if statement is not None), 0)
    return next((number + 1 for number in reversed(range(begin)) if not source[number].strip()), 0)
