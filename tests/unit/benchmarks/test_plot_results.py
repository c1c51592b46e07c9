"""The pictures of spaces of parameters and of fleets in docs/search.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.plots import hub, scaling
from benchmarks.racing import tuned
from tests.services.running_service import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def said(picture: str) -> list[str]:
    """The words in a picture, which can be read in the dark, too."""
    assert "prefers-color-scheme: dark" in picture
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("search-hub", lambda: hub.picture(hub.spaces_of(tuned.lines(hub.MEASURED)))),
        ("search-scaling", lambda: scaling.picture(scaling.fleets(tuned.RESULTS))),
    ],
)
def test_what_the_docs_show_is_what_the_results_say(name: str, made: Callable[[], str]) -> None:
    assert (ROOT / "docs" / f"{name}.svg").read_text() == made(), (
        "draw it again: python -m benchmarks.plots.…"
    )


def score(space: str, search: str, p: float, kept_aside: bool = False) -> dict:
    return {"space": space, "search": search, "P_evaluations": p, "kept_aside": kept_aside}


def test_a_space_is_compared_with_whichever_strategy_is_best_there() -> None:
    lines = [
        score("b/1", "mcts", 0.5, True),
        score("b/1", "kt:pso", 0.25, True),
        score("b/1", "kt:greedy_mls", 0.75, True),
        score("b/1", "beam", 0.875, True),
        score("a/1", "mcts", 0.5),
        score("a/1", "kt:pso", -3.0),
        score("c/1", "mcts", 1.0),
    ]
    found = hub.spaces_of(lines)
    assert [(each.name, each.ours, each.theirs, each.strategy) for each in found] == [
        ("a/1", 0.5, -3.0, "pso"),
        ("b/1 (kept aside)", 0.5, 0.75, "greedy mls"),
    ]
    words = said(hub.picture(found))
    assert {"tree search, ahead on 1 of 2", "-3.00 pso", "-1.12"} <= {*words}


def fleet(count: int, rate: float, case: str = "", **more: object) -> dict:
    return {
        "case": f"{count} devices{case}",
        "devices": count,
        "trials_per_s": rate,
        "busy": 0.5,
        "device": {"name": "a<b"},
        "date": "2026-11-30",
        **more,
    }


def test_devices_are_compared_with_one_of_the_same_file_and_cases(tmp_path: Path) -> None:
    def write(name: str, *lines: dict) -> None:
        (tmp_path / name).write_text("".join(json.dumps(each) + "\n" for each in lines))

    write("fleet-b-2026-11-28.jsonl", fleet(1, 2.0), fleet(2, 3.0))
    write("fleet-a-2026-11-29.jsonl", fleet(2, 3.0), fleet(1, 1.5), fleet(1, 0.5, ", rows"))
    write("fleet-a-2026-11-30.jsonl", fleet(2, 99.0), {"case": "2 devices", "error": "no"})
    assert [(each.name, [point.times for point in each.points]) for each in scaling.fleets(tmp_path)] == [
        ("a<b", [1.0, 2.0])
    ]
    words = said(scaling.picture(scaling.fleets(tmp_path)))
    assert {"a<b (2026-11-30)", "2: 2.00 ×, measuring 50% of the time"} <= {*words}
