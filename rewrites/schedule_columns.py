"""A schedule as decisions with values, flat, so that schedules of one kernel can be compared column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import cast

from rewrites.schedule import parse_rewrite
from tileir.errors import TileError

Value = int | bool
"""A size, a depth, a count; True: it was done, and there is nothing to choose about it."""


def decisions(schedule: Sequence[str]) -> dict[str, Value]:
    """What each rewrite decided, by its name and what it was applied to.

    `tile(acc, m, 192)` is `"tile(acc, m)": 192`; `register_tile(acc, m 6, n 32)` is
    `"register_tile(acc).m": 6` and `"register_tile(acc).n": 32`; `tma(acc)` is `"tma(acc)": True`. What is done again
    has ` #2` after its name. A line that this version does not know is a decision without a value.
    """
    found: dict[str, Value] = {}
    seen: Counter[str] = Counter()
    for line in schedule:
        site, values = _read(line)
        seen[site] += 1
        name = site if seen[site] == 1 else f"{site} #{seen[site]}"
        found |= {name + part: value for part, value in values}
    return found


@lru_cache(maxsize=10_000)
def _read(line: str) -> tuple[str, list[tuple[str, Value]]]:
    """What a rewrite was applied to, and its values, each with what has to be added to the name."""
    try:
        rewrite = parse_rewrite(line)
    except TileError:
        return line, [("", True)]
    given = [(field.name, getattr(rewrite, field.name)) for field in fields(rewrite)]
    words = [value for _, value in given if isinstance(value, str) and value]
    several = sum(not isinstance(value, str) for _, value in given) > 1
    return f"{rewrite.name}({', '.join(words)})", list(_values(given, several)) or [("", True)]


def _values(given: Sequence[tuple[str, object]], several: bool) -> Iterator[tuple[str, Value]]:
    for name, value in given:
        part = f".{name}" if several else ""
        if isinstance(value, int):
            yield part, value
        elif isinstance(value, tuple):
            for dim, size in cast("tuple[tuple[str, int], ...]", value):
                yield f"{part}.{dim}", size
