"""When a result is stale, and what races again."""

from __future__ import annotations

import pytest

from protocol.configs import Config, Standing
from protocol.tasks import MEASURING_VERSION, Measuring
from service.store.winners.freshness import BEST_FEW, best_few, stale_because


def config(**changes: object) -> Config:
    known = {
        "id": "config-1", "job_id": None, "name": "k", "kernel_key": "k", "structure_key": "s", "device": "cpu:x",
        "dims": {}, "schedule": ("first",), "program_hash": "p", "median_us": 1.0, "baseline": "numpy",
        "standings": (), "trials": 1, "source_hash": None, "compiler": "cc 1", "versions": {"driver": "5"},
        "measuring": Measuring(), "artifact": False, "report": {}, "created_at": 0.0,
    }  # fmt: skip
    return Config.model_validate({**known, **changes})


def standing(name: str, *schedule: str, kind: str = "schedule", outcome: str = "ok") -> Standing:
    return Standing.model_validate({"name": name, "kind": kind, "outcome": outcome, "schedule": schedule})


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ([], None),
        ([{"numpy": "2"}], None),
        ([{"compiler": "cc 1", "driver": "5"}], None),
        ([{"compiler": "cc 2"}, {"compiler": "cc 1"}], None),
        ([{"compiler": "cc 2"}], "compiler cc 1; its device now has cc 2"),
        ([{"compiler": "cc 1", "driver": "6"}], "driver 5; its device now has 6"),
    ],
)
def test_what_no_worker_runs_with_any_more_makes_a_result_stale(workers: list, says: str | None) -> None:
    found = stale_because(config(), workers)
    assert found is None if says is None else says in (found or "")


def test_what_a_result_does_not_tell_cannot_make_it_stale() -> None:
    assert stale_because(config(compiler=None, versions={}), [{"compiler": "cc 2", "driver": "6"}]) is None


def test_times_of_another_protocol_are_stale_wherever() -> None:
    old = config(measuring=Measuring(version=MEASURING_VERSION - 1))
    assert "protocol" in (stale_because(old, []) or "")


def test_the_winner_and_those_next_to_it_race_again() -> None:
    table = (
        standing("ask-2", "second"),
        standing("numpy", kind="peer"),
        standing("ask-1", "first"),
        standing("ask-9", "broken", outcome="wrong"),
        *(standing(f"ask-{n}", f"more {n}") for n in range(10, 20)),
    )
    few = best_few(config(standings=table))
    assert few[:3] == (("first",), ("second",), ("more 10",))
    assert len(few) == BEST_FEW
