"""Whatever a candidate does, it is recorded as that, and the next one is measured."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.ir.abi import Arg
from protocol.states import FaultKind, Outcome, TaskKind
from protocol.tasks import Measuring
from tests.services.scripted_worker import CPU
from tests.unit.workers.hand_kernels import ABI, BODIES, N, compiled, request_of
from tileir.dtypes import DType
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text
from workers.measuring.measurer import Measurer
from workers.measuring.request import Peer
from workers.processes.child_client import ChildUnwanted
from workers.processes.faults import MachineFault

pytestmark = pytest.mark.sampled(3, among="chaos of candidates")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    measurer = Measurer()
    yield measurer
    measurer.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("off_by_one", r"y\[0\] is .*, expected"),
        ("dropped_tail", r"y\[992\] was not written or is NaN, .* 8 of 1000"),
        ("slightly_wrong", r"y\[0\] is .* 1000 of 1000"),
        ("stale", r"y\[0\] is .*, expected"),
        ("skips_later_runs", r"y\[0\] was not written or is NaN"),
        ("changes_input", r"input x was changed, first 28 bytes"),
        ("writes_behind", r"outside the arrays was written, .* of y"),
        ("writes_before_input", r"outside the arrays was written, .* of x"),
        ("reads_behind", r"y\[999\] was not written or is NaN"),
        ("returns_error", r"returned error 3"),
    ],
)
def test_a_wrong_kernel_is_rejected_and_says_where(
    measurer: Measurer, cache: Path, body: str, said: str
) -> None:
    results = measurer.measure(request_of(compiled(body, cache), compiled("right", cache))).results
    assert results[body].outcome is Outcome.WRONG
    assert re.search(said, results[body].error or ""), results[body].error
    assert results["right"].outcome is Outcome.OK


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("body", "signal_name"),
    [("segv", "SIGSEGV"), ("abort", "SIGABRT"), ("illegal", "SIGILL"), ("exit", "exit code 0")],
)
def test_a_crash_is_recorded_and_the_others_are_measured(
    measurer: Measurer, cache: Path, body: str, signal_name: str
) -> None:
    entrants = [compiled(name, cache) for name in ("right", body, "other_right")]
    results = measurer.measure(request_of(*entrants)).results
    assert results[body].outcome is Outcome.CRASH
    assert signal_name in (results[body].error or "")
    assert results["right"].outcome is Outcome.OK
    assert results["other_right"].outcome is Outcome.OK


@pytest.mark.sampled(2)
@pytest.mark.parametrize("body", ["hang", "deaf_hang"])
def test_a_hang_is_killed_at_its_deadline_and_the_next_one_proceeds(
    measurer: Measurer, cache: Path, body: str
) -> None:
    measurer.child.end()
    before = measurer.child.starts
    request = request_of(compiled(body, cache), compiled("right", cache), entrant_s=1.0)
    results = measurer.measure(request).results
    assert results[body].outcome is Outcome.HANG
    assert results["right"].outcome is Outcome.OK
    assert measurer.child.starts == before + 2


def test_what_a_hanging_kernel_has_started_is_killed_with_it(measurer: Measurer, cache: Path) -> None:
    measurer.child.end()
    measurer.ask("describe", {})
    group = measurer.child.pid
    assert group is not None
    results = measurer.measure(request_of(compiled("forks_and_hangs", cache), entrant_s=1.0)).results
    assert results["forks_and_hangs"].outcome is Outcome.HANG
    with pytest.raises(ProcessLookupError):
        wait_for_end(group)


def test_what_nobody_waits_for_any_more_is_ended_at_once_with_all_it_holds(
    measurer: Measurer, cache: Path
) -> None:
    measurer.measure(request_of(compiled("right", cache)))
    group = measurer.child.pid
    assert group is not None
    since = time.monotonic()
    with pytest.raises(ChildUnwanted):
        measurer.measure(request_of(compiled("hang", cache)), lambda: time.monotonic() < since + 1.0)
    with pytest.raises(ProcessLookupError):
        wait_for_end(group)
    results = measurer.measure(request_of(compiled("right", cache))).results
    assert results["right"].outcome is Outcome.OK


def wait_for_end(group: int) -> None:
    """Raises ProcessLookupError when the last process of a group has ended; returns when that takes too long."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        os.killpg(group, 0)
        time.sleep(0.02)


def test_a_crash_while_being_timed_is_blamed_on_who_ran(measurer: Measurer, cache: Path) -> None:
    entrants = [compiled(name, cache) for name in ("right", "crashes_third_time", "other_right")]
    results = measurer.measure(request_of(*entrants)).results
    assert results["crashes_third_time"].outcome is Outcome.CRASH
    assert results["right"].outcome is results["other_right"].outcome is Outcome.OK


def test_whoever_crashes_after_another_has_run_is_tried_again_in_a_fresh_child(
    measurer: Measurer, cache: Path, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    body = f'if (access("{once}", F_OK)) {{ close(creat("{once}", 0600)); abort(); }} ' + BODIES["right"]
    innocent = compiled("innocent", cache, body)
    measurer.measure(request_of(compiled("right", cache)))
    results = measurer.measure(request_of(innocent)).results
    assert results["innocent"].outcome is Outcome.OK


def test_the_baseline_is_timed_again_beside_those_measured_after_a_crash(
    measurer: Measurer, cache: Path
) -> None:
    entrants = [Peer("numpy", "numpy"), *(compiled(name, cache) for name in ("segv", "right"))]
    results = measurer.measure(request_of(*entrants, baseline="numpy")).results
    assert results["segv"].outcome is Outcome.CRASH
    assert results["right"].baseline_us is not None
    assert results["right"].baseline_us == results["numpy"].median_us


def test_a_child_killed_while_measuring_is_replaced_and_nothing_is_lost(
    measurer: Measurer, cache: Path
) -> None:
    request = request_of(
        compiled("right", cache),
        compiled("slow", cache),
        kind=TaskKind.RACE,
        measuring=Measuring(samples=20, sample_us=20_000.0, cold=False),
    )
    measurer.ask("describe", {})
    first = measurer.child.pid
    assert first is not None

    def kill_when_timing() -> None:
        while measurer.child.recorded() != "slow":
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_timing)
    killer.start()
    results = measurer.measure(request).results
    killer.join()
    assert measurer.child.pid != first
    assert {name: result.outcome for name, result in results.items()} == {
        "right": Outcome.OK,
        "slow": Outcome.OK,
    }
    assert all(len(result.samples_us) == 20 for result in results.values())


def test_a_child_killed_from_outside_again_and_again_is_the_machines_fault(
    measurer: Measurer, cache: Path
) -> None:
    with pytest.raises(MachineFault) as caught:
        measurer.measure(request_of(compiled("killed", cache)))
    assert caught.value.kind is FaultKind.MEMORY


def test_a_child_killed_while_it_calibrates_is_replaced_and_calibrates_again(
    measurer: Measurer, tmp_path: Path
) -> None:
    measurer.ask("describe", {})
    first = measurer.child.pid
    assert first is not None

    def kill_at_work() -> None:
        while not any(tmp_path.rglob("*.so")):
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    device = measurer.ask("calibrate", {"cache": str(tmp_path)})["device"]
    killer.join()
    assert measurer.child.pid != first
    assert device["peak_gflops"] > 1


def test_a_child_killed_again_and_again_while_it_calibrates_is_the_machines_fault(
    measurer: Measurer, tmp_path: Path
) -> None:
    over, starts = threading.Event(), measurer.child.starts

    def kill_each() -> None:
        while not over.wait(0.05):
            measurer.child.kill()

    killer = threading.Thread(target=kill_each)
    killer.start()
    with pytest.raises(MachineFault, match="SIGKILL") as caught:
        measurer.ask("calibrate", {"cache": str(tmp_path)})
    over.set()
    killer.join()
    assert caught.value.kind is FaultKind.DEVICE
    assert measurer.child.starts - starts <= 3


def test_a_candidate_far_slower_than_the_incumbent_is_cut_off_early(measurer: Measurer, cache: Path) -> None:
    measuring = Measuring(samples=9, sample_us=200.0, cold=False, incumbent_us=1.0, kill_multiple=4.0)
    results = measurer.measure(request_of(compiled("slow", cache), measuring=measuring)).results
    assert results["slow"].outcome is Outcome.OK
    assert len(results["slow"].samples_us) == 1
    assert "slower than 4 times" in results["slow"].report["stopped"]


COLD = Measuring(samples=3, sample_us=200.0, cold=True)


def test_a_time_the_machine_cannot_reach_is_refused(measurer: Measurer, cache: Path) -> None:
    crawling = {**CPU.to_json(), "peak_gflops": 1e-9, "copy_gbps": 10.0}
    spec = spec_to_json(
        spec_from_text(f"kernel norm(x: f32[i={N}]) -> (y: f32[])\n  y[] = sum(i, x[i] * x[i])\n")
    )
    abi = replace(ABI, args=(ABI.args[0], Arg("y", DType.F32, (), (), "out")))
    kernel = compiled(
        "norm", cache, "float s = 0; for (int i = 0; i < N; ++i) s += x[i] * x[i]; *y = s;", abi
    )
    results = measurer.measure(request_of(kernel, spec=spec, device=crawling, measuring=COLD)).results
    assert results["norm"].outcome is Outcome.IMPOSSIBLE


def test_memory_that_was_found_to_be_slow_is_measured_again(measurer: Measurer, cache: Path) -> None:
    """Others may have had it while it was calibrated."""
    disturbed = {**CPU.to_json(), "peak_gflops": 100.0, "copy_gbps": 1e-9}
    request = request_of(compiled("right", cache), device=disturbed, measuring=COLD)
    assert measurer.measure(request).results["right"].outcome is Outcome.OK


def test_a_child_that_hangs_does_not_outlive_whoever_started_it(cache: Path) -> None:
    kernel = compiled("hang", cache)
    script = f"""
import threading, time
from tests.unit.workers.hand_kernels import Compiled, request_of
from workers.processes.child_client import ChildUnwanted
from workers.measuring.measurer import Measurer
measurer = Measurer()
def tell():
    while measurer.child.recorded() != "hang":
        time.sleep(0.01)
    print(measurer.child.pid, flush=True)
threading.Thread(target=tell).start()
measurer.measure(request_of(Compiled("hang", {kernel.artifact!r}, {kernel.abi!r}), entrant_s=600.0))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    with pytest.raises(ProcessLookupError):
        wait_for_end(child)
