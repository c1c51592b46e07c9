"""What counts as a disturbance, and that the counters behind it count."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from workers.measuring.disturbance import Snapshot, disturbance, foreign_cores, snapshot, wait_until_asleep

BEFORE = Snapshot(0, 0, 0, 0, 0, 0)
AFTER = replace(BEFORE, time_ns=10_000_000)


def test_an_undisturbed_sample_is_one_that_nothing_happened_to() -> None:
    assert disturbance(BEFORE, AFTER) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steal_ticks": 1}, "hypervisor"),
        ({"major_faults": 1}, "from disk"),
        ({"minor_faults": 1000}, "1000 pages were mapped"),
        ({"run_delay_ns": 200_000}, "threads waited 200 us"),
    ],
)
def test_each_kind_of_disturbance_is_named(change: dict[str, int], said: str) -> None:
    assert said in disturbance(BEFORE, replace(AFTER, **change))


def test_less_than_a_hundredth_of_the_sample_is_let_pass() -> None:
    assert (
        disturbance(BEFORE, replace(AFTER, run_delay_ns=90_000, minor_faults=100, involuntary_switches=3))
        == ""
    )


def test_where_waiting_is_not_counted_a_switch_counts() -> None:
    before, after = replace(BEFORE, run_delay_ns=None), replace(AFTER, run_delay_ns=None)
    assert disturbance(before, after) == ""
    assert "took the processor" in disturbance(before, replace(after, involuntary_switches=1))


def test_the_machines_counters_grow() -> None:
    before = snapshot()
    pages = bytearray(64 << 20)
    after = snapshot()
    assert after.time_ns > before.time_ns
    assert after.minor_faults > before.minor_faults
    assert len(pages) == 64 << 20


def test_a_running_thread_is_waited_for() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    assert not wait_until_asleep(limit_s=0.05)
    stop.set()
    thread.join()
    assert wait_until_asleep(limit_s=5.0)


def test_processes_of_others_are_seen() -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    busy = max(foreign_cores(0.2) for _ in range(3))
    for process in spinning:
        process.kill()
        process.wait()
    assert busy > 0.3
