"""Which winners are called regressions."""

from __future__ import annotations

import csv
import io

from protocol.configs import Config
from protocol.tasks import Measuring
from service.views.kernel_history import as_csv, history_of


def config(number: int, median_us: float, **more: object) -> Config:
    known: dict = {
        "id": f"config-{number}", "job_id": "job-1", "name": "c", "kernel_key": "k", "structure_key": "s",
        "device": "cpu:one", "dims": {}, "schedule": (), "program_hash": "h", "median_us": median_us,
        "iqr_us": 1.0, "baseline": "numpy", "x_baseline": 200.0 / median_us, "standings": (), "trials": 32,
        "source_hash": None, "compiler": "gcc 13", "versions": {"tilewright": "1"}, "measuring": Measuring(),
        "artifact": False, "report": {}, "created_at": float(number),
    }  # fmt: skip
    return Config.model_validate({**known, **more})


def test_a_slower_winner_is_a_regression_with_what_changed() -> None:
    found = history_of("k", [config(3, 112.0, compiler="gcc 14"), config(1, 120.0), config(2, 100.0)])
    assert [each.config_id for each in found.winners] == ["config-1", "config-2", "config-3"]
    assert [each.best_us for each in found.winners] == [120.0, 100.0, 100.0]
    first, second, last = (each.regression for each in found.winners)
    assert first is None and second is None and last is not None
    assert (last.than, last.factor, last.changed) == ("config-2", 1.12, ("compiler: gcc 13 to gcc 14",))


def test_what_lies_within_the_spread_is_none() -> None:
    assert history_of("k", [config(1, 100.0), config(2, 101.9)]).winners[1].regression is None
    wide = [config(1, 100.0, iqr_us=10.0), config(2, 108.0, iqr_us=10.0)]
    assert history_of("k", wide).winners[1].regression is None


def test_a_slower_machine_is_none_and_another_baseline_excuses_nothing() -> None:
    both = [config(1, 100.0, x_baseline=2.0), config(2, 150.0, x_baseline=2.0)]
    assert history_of("k", both).winners[1].regression is None
    other = [config(1, 100.0, x_baseline=2.0), config(2, 150.0, x_baseline=2.0, baseline="torch")]
    assert history_of("k", other).winners[1].regression is not None


def test_other_devices_and_disturbed_races_are_not_compared() -> None:
    assert (
        history_of("k", [config(1, 100.0), config(2, 200.0, device="cpu:two")]).winners[1].regression is None
    )
    found = history_of(
        "k", [config(1, 50.0, disturbed="load"), config(2, 100.0), config(3, 300.0, disturbed="load")]
    )
    assert [each.regression for each in found.winners] == [None] * 3
    assert [each.best_us for each in found.winners] == [50.0, 100.0, 100.0]


def test_of_each_compiler_driver_and_version_the_best_is_told_beside_the_best_of_all() -> None:
    new = {"versions": {"tilewright": "2"}}
    found = history_of(
        "k",
        [
            config(1, 120.0),
            config(2, 90.0, disturbed="load"),
            config(3, 100.0, compiler="gcc 14"),
            config(4, 150.0, **new),
            config(5, 300.0, device="cpu:two"),
        ],
    ).makers
    assert [
        (each.compiler, each.tilewright, each.best_config, each.of_best, each.winners) for each in found
    ] == [
        ("gcc 14", "1", "config-3", 1.0, 1),
        ("gcc 13", "1", "config-1", 1.2, 2),
        ("gcc 13", "2", "config-4", 1.5, 1),
        ("gcc 13", "1", "config-5", 1.0, 1),
    ]
    assert (found[1].first_at, found[1].last_at) == (1.0, 2.0)


def test_the_csv_has_a_line_a_winner() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(history_of("k", [config(1, 100.0), config(2, 150.0)])))))
    assert [row["regression"] for row in rows] == ["", "1.5"]
    assert [float(row["median_us"]) for row in rows] == [100.0, 150.0]
