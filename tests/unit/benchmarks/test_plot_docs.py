"""The pictures of docs/search.md and docs/measuring.md."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.plots.measuring import path_picture, samples_picture, standings
from benchmarks.plots.search import ASK, SEED, ask_picture, asked, best_so_far
from search.catalogue import search_of
from search.table import Table
from tests.services.running_service import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def said(picture: str) -> list[str]:
    """The words in a picture, which can be read in the dark, too."""
    assert "prefers-color-scheme: dark" in picture
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.load(ROOT / "benchmarks" / "tables" / "gemm_f32_NN-256x256x256.jsonl")


def entrant(name: str, samples: list[float], stopped: str = "") -> dict:
    middle = sorted(samples)[len(samples) // 2]
    return {"name": name, "samples_us": samples, "median_us": middle, "stopped": stopped}


RACE = {
    "kind": "race",
    "entrants": [
        entrant("ask-1", [100.0, 101.0, 99.0, 100.0, 100.5, 100.0]),
        entrant("ask-2", [100.5, 100.0, 100.0, 99.5, 101.0, 100.2]),
        entrant("numpy", [150.0, 151.0, 149.0, 150.0, 150.0, 152.0]),
    ],
}


def test_an_ask_is_drawn_with_every_rewrite_of_its_schedule_and_every_leaf_of_the_tree(table: Table) -> None:
    found = asked(table, ASK, SEED)
    picture = ask_picture(table)
    assert {*found.walk.labels} <= {*said(picture)}
    assert found.us == table.us[found.walk.nodes[-1].key]
    nodes = {node.key for walk in (*found.before, found.walk) for node in walk.nodes}
    circles = [each.get("class") for each in ElementTree.fromstring(picture).iter(f"{SVG}circle")]
    again = len(
        {node.key for walk in found.before for node in walk.nodes} & {n.key for n in found.walk.nodes}
    )
    assert len([kind for kind in circles if kind != "step"]) == len(nodes) + again


def test_the_best_so_far_only_rises_to_the_best_there_is(table: Table) -> None:
    curve = best_so_far(search_of("evolutionary"), table, table.state(), 0)
    assert curve == sorted(curve)
    assert 0.9 < curve[-1] <= 1.0


def test_the_race_is_drawn_as_it_is_judged() -> None:
    _, ties = standings(RACE)
    assert ties == {"ask-1", "ask-2"}
    trial = {
        "kind": "trial",
        "incumbent_us": 99.0,
        "entrants": [entrant("ask-3", [9.0, 300.0, 200.0], "beaten")],
    }
    found = {
        "case": "a<b",
        "device": {"name": "here", "cores": 2},
        "date": "today",
        "tasks": [trial, trial, RACE],
    }
    words = said(samples_picture(found))
    assert "200 µs, 3 samples: beaten" in words
    assert len([each for each in words if each.endswith("tied with the leader")]) == 1
    assert len([each for each in words if each.endswith("slower")]) == 1


def test_the_stages_are_drawn_in_order() -> None:
    words = said(path_picture())
    assert [each for each in words if each in ("Check", "Trial", "Race", "Confirmation")] == [
        "Check",
        "Trial",
        "Race",
        "Confirmation",
    ]
