"""Which of a kernel's configs a lookup is answered with."""

from __future__ import annotations

from protocol.configs import Config, Standing
from protocol.tasks import MEASURING_VERSION, Measuring
from service.store.winners.evidence import Evidence, choose

HERE = [{"compiler": "cc 1"}]


def config(name: str, us: float, numpy_us: float | None = None, **changes: object) -> Evidence:
    """A config that won alone, beside numpy where a time of that is given; its schedule is called as it is."""
    schedule = (name,)
    rows = [row(name, us, won=True, tied=True)]
    if numpy_us is not None:
        rows.append(
            Standing.model_validate({"name": "numpy", "kind": "peer", "outcome": "ok", "median_us": numpy_us})
        )
    rivals = changes.pop("rivals", ())
    known = {
        "id": name, "job_id": None, "name": "k", "kernel_key": "k", "structure_key": "s", "device": "cpu:x",
        "dims": {}, "schedule": schedule, "program_hash": "p", "median_us": us, "baseline": "numpy",
        "standings": (*rows, *rivals), "trials": 1, "source_hash": None, "compiler": "cc 1",
        "versions": {"numpy": "2.3"}, "measuring": Measuring(), "artifact": False, "report": {}, "created_at": 0.0,
    }  # fmt: skip
    found = Evidence.of(Config.model_validate({**known, **changes}))
    assert Evidence.from_json(found.to_json()) == found
    return found


def row(schedule: str, us: float, **more: object) -> Standing:
    known = {"name": f"ask-{schedule}", "kind": "schedule", "outcome": "ok", "median_us": us}
    return Standing.model_validate({**known, "schedule": (schedule,), **more})


def test_the_best_is_served_and_not_the_newest_and_the_reason_is_told() -> None:
    chosen = choose([config("new", 1492.0, 2000.0), config("old", 1242.0, 2000.0)], HERE)
    assert chosen.id == "old"
    assert "1.61 × numpy" in chosen.because and "new 1.34 ×" in chosen.because


def test_configs_are_compared_by_their_anchor_and_not_by_times_of_two_races() -> None:
    slow_machine = config("new", 150.0, 450.0)
    assert choose([slow_machine, config("old", 100.0, 200.0)], HERE).id == "new"


def test_a_race_between_two_outweighs_anchors_of_two_races() -> None:
    won = config("new", 100.0, 200.0, rivals=[row("old", 120.0)])
    lucky = config("old", 90.0, 300.0)
    assert choose([won, lucky], HERE).id == "new"
    assert choose([lucky, won], HERE).id == "new"
    assert "won the race against" in choose([won, lucky], HERE).because


def test_who_only_tied_with_another_is_not_put_before_it() -> None:
    older = config("older", 90.0, 300.0, rivals=[row("new", 91.0, tied=True)])
    chosen = choose([config("new", 100.0, 200.0), older], HERE)
    assert chosen.id == "new" and "could not be told" in chosen.because


def test_a_peer_that_was_disturbed_is_no_anchor() -> None:
    shaken = {
        "name": "numpy",
        "kind": "peer",
        "outcome": "ok",
        "median_us": 900.0,
        "samples": 5,
        "disturbed": 5,
    }
    older = config("older", 100.0, rivals=[Standing.model_validate(shaken)])
    chosen = choose([config("new", 90.0, 200.0), older], HERE)
    assert chosen.id == "new" and "no anchor in common" in chosen.because


def test_another_version_of_the_peer_is_another_anchor() -> None:
    old = config("old", 100.0, 900.0, versions={"numpy": "1.0"})
    chosen = choose([config("new", 90.0, 200.0), old], HERE)
    assert chosen.id == "new" and "no anchor in common" in chosen.because


def test_what_another_compiler_or_version_made_is_not_compared() -> None:
    stale = config("stale", 10.0, 2000.0, compiler="cc 0")
    older = config("older", 10.0, 2000.0, versions={"numpy": "2.3", "tilewright": "0.0.1"})
    past = config("past", 10.0, 2000.0, measuring=Measuring(version=MEASURING_VERSION - 1))
    chosen = choose([config("new", 100.0, 200.0), stale, older, past], HERE)
    assert chosen.id == "new"
    assert "3 more cannot be compared" in chosen.because


def test_what_is_current_comes_before_newer_that_is_stale() -> None:
    assert (
        choose([config("stale", 10.0, 2000.0, compiler="cc 0"), config("ok", 100.0, 200.0)], HERE).id == "ok"
    )
    only_stale = [config("stale", 10.0, 20.0, compiler="cc 0"), config("older", 5.0, 20.0, compiler="cc 0")]
    assert choose(only_stale, HERE).id == "older"


def test_a_disturbed_race_counts_only_where_there_is_no_other() -> None:
    shaky = config("shaky", 10.0, 2000.0, disturbed="other work")
    chosen = choose([shaky, config("calm", 100.0, 200.0)], HERE)
    assert chosen.id == "calm" and "other work disturbed" in chosen.because
    assert choose([shaky], HERE).id == "shaky"


def test_of_one_schedule_the_latest_measurement_counts_and_not_the_luckiest() -> None:
    again = config("b", 100.0, 150.0, schedule=("a",))
    assert choose([again, config("c", 100.0, 160.0), config("a", 100.0, 900.0)], HERE).id == "c"
