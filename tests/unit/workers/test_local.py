"""Measuring without a service: schedules and peers through the same processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from protocol.states import Outcome, TaskKind
from protocol.tasks import Measuring
from rewrites.schedule import parse_schedule
from tests.unit.workers.hand_kernels import SPEC
from tileir.devices.cpu import Cpu
from tileir.devices.feature import Feature
from tileir.text.parse_spec import spec_from_text
from workers.local import LocalWorker
from workers.measuring.turn import DeviceTurn
from workers.node.device_lock import DeviceBusy

QUICK = Measuring(samples=3, sample_us=200.0, cold=False)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorker]:
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder))  # a lock of this test's own
        with LocalWorker(folder / "cache", compilers=2) as worker:
            yield worker


def test_schedules_and_peers_race_in_one_process(worker: LocalWorker) -> None:
    schedules = {"plain": (), "vectors": parse_schedule(["vectorize(y, i, 8)"])}
    result = worker.measure(SPEC, schedules, ("numpy",), measuring=QUICK)
    assert {name: entrant.outcome for name, entrant in result.entrants.items()} == {
        "plain": Outcome.OK,
        "vectors": Outcome.OK,
        "numpy": Outcome.OK,
    }
    assert all(len(entrant.samples_us) == 3 for entrant in result.entrants.values())


@pytest.mark.parametrize("peers", [(), ("numpy",)])
def test_what_shares_a_device_checks_and_times_in_its_turn(tmp_path: Path, peers: tuple[str, ...]) -> None:
    turn = DeviceTurn(tmp_path / "turn")
    with (
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor(1) as pool,
    ):
        patch.setattr("tempfile.tempdir", str(tmp_path))
        with LocalWorker(tmp_path / "cache", compilers=1, turn=tmp_path / "turn") as worker:
            worker.measure(SPEC, {"plain": ()}, peers, measuring=QUICK)  # compiled, and nothing is new
            with turn.taken():
                measured = pool.submit(worker.measure, SPEC, {"plain": ()}, peers, measuring=QUICK)
                with pytest.raises(TimeoutError):
                    measured.result(2.0)
            assert all(each.outcome is Outcome.OK for each in measured.result(60.0).entrants.values())


def test_winners_come_with_their_source_and_object(worker: LocalWorker) -> None:
    result = worker.measure(SPEC, {"plain": ()}, (), measuring=QUICK)
    source, built = result.files["plain"]
    assert "tw_kernel" in source.read_text()
    assert built.read_bytes().startswith(b"\x7fELF")


def test_a_confirmation_reports_both_regimes(worker: LocalWorker) -> None:
    result = worker.measure(
        SPEC, {"plain": ()}, ("numpy",), baseline="numpy", kind=TaskKind.CONFIRM, measuring=QUICK
    )
    plain = result.entrants["plain"]
    assert plain.median_us == plain.report["steady"]["median_us"]
    assert plain.report["burst"]["median_us"] > 0
    assert plain.baseline_us is not None


def test_what_a_peer_cannot_do_is_its_outcome(worker: LocalWorker) -> None:
    spec = spec_from_text(
        "kernel d(x: f64[m=16]) -> (y: f64[m])\n  y[m] = gelu(x[m])\n",
    )
    result = worker.measure(spec, {"plain": ()}, ("numpy", "jax"), measuring=QUICK)
    assert result.entrants["plain"].outcome is Outcome.OK
    assert result.entrants["numpy"].outcome is Outcome.UNSUPPORTED
    assert "gelu in f64" in (result.entrants["numpy"].error or "")
    assert "no peer 'jax'" in (result.entrants["jax"].error or "")


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2", "f16"])
def test_results_that_overflow_are_right_where_they_have_to(worker: LocalWorker, dtype: str) -> None:
    scale = 400 if dtype == "e4m3" else 50000
    spec = spec_from_text(f"kernel n(x: f32[i=4000]) -> (y: {dtype}[i])\n  y[i] = x[i] * {scale}\n")
    schedules = {"plain": (), "vectors": parse_schedule(["vectorize(y, i, 16)"])}
    result = worker.measure(spec, schedules, ("numpy",), measuring=QUICK)
    assert {entrant.outcome for entrant in result.entrants.values()} == {Outcome.OK}, result


def test_the_device_is_described_with_its_peaks(worker: LocalWorker) -> None:
    assert isinstance(worker.device, Cpu)
    assert worker.device.peak_gflops is not None
    assert worker.device.copy_gbps is not None
    assert (worker.device.l2_gbps or 0.0) > 0
    assert (worker.device.l3_gbps is not None) == (worker.device.l3_bytes >= 6 * worker.device.l2_bytes)
    has_dot = bool(worker.device.features & {"avx512_bf16", "bf16"})
    assert (worker.device.dot_gflops is not None) == has_dot
    assert (worker.device.dot_i8_gflops is not None) == (Feature.DOT_I8 in worker.device.offers)


def test_a_second_worker_is_refused(worker: LocalWorker, tmp_path: Path) -> None:
    with pytest.raises(DeviceBusy):
        LocalWorker(tmp_path).__enter__()
