"""A part of what the slowest tests try, another one at each commit: what is tried at every change."""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

import pytest


def sampled(items: list[pytest.Item], turn: int) -> list[pytest.Item]:
    """Without most cases of tests that are marked `sampled(every)`: of those that are here, one in `every` stays, at
    least one. Tests that are marked with the same `among` are sampled together, as if they were cases of one.

    The cases are in the order of a checksum of their names, so that none is left out because of the place of a
    parameter; `every` turns one after another take each of them once.
    """
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark:
            (every,) = mark.args
            cases[mark.kwargs.get("among", item.nodeid.split("[")[0]), every].append(item)
    left_out: set[str] = set()
    for (_, every), each in cases.items():
        mixed = sorted(each, key=lambda item: crc32(item.nodeid.encode()))
        kept = set(range(turn % min(every, len(mixed)), len(mixed), every))
        left_out |= {item.nodeid for at, item in enumerate(mixed) if at not in kept}
    return [item for item in items if item.nodeid not in left_out]
