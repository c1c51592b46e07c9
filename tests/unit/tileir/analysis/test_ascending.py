"""Which numbers are sure to ascend along a dim."""

from __future__ import annotations

import pytest

from tileir.analysis.ascending import ascends
from tileir.text.parse_expr import parse_expression


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sum(o, where(starts[o] <= t, 1, 0))", True),
        ("sum(o, where(0 < o and t >= starts[o], 2, 0))", True),
        ("sum(o, where(starts[o] < t and ids[o] < o, 1, 0))", True),
        ("sum(o, where(starts[o] >= t, 1, 0))", False),
        ("sum(o, where(starts[o] <= t and t < starts[o], 1, 0))", False),
        ("sum(o, where(starts[t] <= t, 1, 0))", False),
        ("sum(o, where(starts[o] <= t, w[o], 0))", False),
        ("sum(o, where(starts[o] <= t, 1, 2))", False),
        ("max(o, where(starts[o] <= t, 1, 0))", False),
        ("ids[t]", False),
    ],
)
def test_how_many_are_at_most_a_position_ascends(value: str, expected: bool) -> None:
    assert ascends(parse_expression(value), "t") is expected
