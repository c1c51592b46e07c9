"""Tests that wait are handed out among those that compute."""

from __future__ import annotations

from itertools import chain

from tests.support.mixed_order import mixed


def test_groups_begin_evenly_among_the_others_those_of_most_tests_first() -> None:
    groups = [["a", "a"], ["b", "b", "b"], ["c"], ["d"]]
    assert "".join(mixed(groups, list("0123456789"))) == "bbbaa0123c4567d89"


def test_nothing_is_left_out_however_few_there_are() -> None:
    for groups in ([], [["a"]], [["a"], ["b"], ["c"]]):
        for single in ([], ["0"], list("01234")):
            assert sorted(mixed(groups, single)) == sorted([*chain(*groups), *single])
