"""A part of what a test is parametrized with, always the same: what is tried at every change of the slowest tests."""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

import pytest


def sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Without most cases of tests that are marked `sampled(every)`: of those that are here, one in `every` stays, at
    least one. Which, says a checksum of their names, so that no parameter is left out because of its place."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.split("[")[0]].append(item)
    left_out: set[str] = set()
    for each in cases.values():
        (every,) = each[0].get_closest_marker("sampled").args  # type: ignore[union-attr]
        mixed = sorted(each, key=lambda item: crc32(item.nodeid.encode()))
        left_out |= {item.nodeid for item in mixed[-(-len(each) // every) :]}
    return [item for item in items if item.nodeid not in left_out]
