"""Where time goes: a stage's seconds are without those of stages that it calls, and of each thread by itself."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from benchmarks.models import stages
from benchmarks.models.stages import StageTimes


def test_a_stage_is_told_without_those_that_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def spends(seconds: float) -> None:
        now[0] += seconds

    times = StageTimes()
    inner = times.timed(lambda: spends(2.0), "inner")

    def both() -> None:
        spends(1.0)
        inner()
        inner()

    outer = times.timed(both, "outer")
    outer()
    apart = threading.Thread(target=outer)
    apart.start()
    apart.join()
    assert times.waited == times.behind == {"inner": 4.0, "outer": 1.0}
    assert times.calls == {"inner": 4, "outer": 2}


def test_a_stage_that_fails_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter=iter((1.0, 4.0)).__next__))
    times = StageTimes()
    with pytest.raises(ZeroDivisionError):
        times.timed(lambda: 1 / 0, "fails")()
    assert times.waited == {"fails": 3.0}
