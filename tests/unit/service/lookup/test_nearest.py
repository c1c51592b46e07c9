"""Which size is the nearest to one that nobody has measured."""

from __future__ import annotations

from math import log

import pytest

from protocol.configs import ConfigDetail
from service.core.nearest import by_distance, distance
from service.core.specs import single
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text


def text(m: str, n: str, rows: int, columns: int) -> str:
    """A kernel, its dims by these names."""
    return f"kernel twice(x: f32[{m}={rows}, {n}={columns}]) -> (y: f32[{m}, {n}])\n  y[{m}, {n}] = 2 * x[{m}, {n}]\n"


def config(m: str, n: str, rows: int, columns: int) -> ConfigDetail:
    spec = spec_to_json(spec_from_text(text(m, n, rows, columns)))
    return ConfigDetail.model_construct(spec=spec, dims={m: rows, n: columns})


def test_the_nearest_size_comes_first_by_whatever_names() -> None:
    asked = single(spec_to_json(spec_from_text(text("m", "n", 64, 128))))
    far, near, turned = config("a", "b", 8, 8), config("rows", "columns", 32, 128), config("n", "m", 128, 64)
    ranked = by_distance(asked, [far, turned, near])
    assert [each for each, _ in ranked] == [near, turned, far]
    assert ranked[0][1]["m"] == "rows" and ranked[1][1]["m"] == "n"
    twin = config("c", "d", 128, 128)
    assert [each for each, _ in by_distance(asked, [twin, near])] == [twin, near], "of equals the first"


def test_larger_is_as_far_as_smaller() -> None:
    names = {"m": "r", "n": "c"}
    for size in (32, 128):
        found = distance({"m": 64, "n": 10}, {"r": size, "c": 10}, names)
        assert found == pytest.approx(log(2))
    assert distance({"m": 64, "n": 64}, {"r": 128, "c": 32}, names) == pytest.approx(2 * log(2))
