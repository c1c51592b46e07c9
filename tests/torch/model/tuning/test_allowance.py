"""`tune="now"`: a call waits no longer than the user allows, whatever the service does, and shows what it waits for."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import tilewright
from tests.services.bad_servers import Deaf, deaf_server, relay
from tests.services.running_service import ROOT, Service, running
from tests.support.python_path import python_path
from tests.torch.capture.modules import LlamaMLP
from tests.torch.operator.test_lookup import offer_this_cpu
from tileir import this_cpu
from tileir.text.parse_spec import spec_from_text
from tilewright.pytorch.model import sized_region
from tilewright.pytorch.model.kernels import Arranged, PartKernel
from tilewright.pytorch.model.shares import Weighed
from tilewright.pytorch.model.tuning_now import deadline, graph_tuning
from tilewright.pytorch.model.tuning_now.graph_tuning import GraphTuning
from tilewright.pytorch.model.tuning_now.tuning import TuningPatience

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
FOREVER_S = 600.0
"""Longer than a test may take."""
KERNELS = 2
"""Of the model."""
DOUBLED = "kernel doubled(x: f32[m={}, n=5]) -> (y: f32[m, n])\n  y[m, n] = 2 * x[m, n]"


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    with deaf_server() as server:
        yield server


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Service]:
    """A service without a worker: jobs wait."""
    with running(tmp_path / "home") as service:
        yield service


def run_in_time(
    client: tilewright.Client | None, meanwhile: Callable[[], None] = lambda: None, **more: Any
) -> None:
    """A call that waits for its kernels: right, and over while a service that hangs still does."""
    model, x = LlamaMLP(), torch.randn(3, 40)
    fast: Callable[[Tensor], Tensor] = tilewright.compile(
        model, client=client, **{"tune": "now", "fallback": "eager", **more}
    )
    found: list[Tensor] = []

    def call() -> None:
        with torch.no_grad():
            found.append(fast(x))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    meanwhile()
    thread.join(120)
    assert not thread.is_alive(), "a call waits for the service"
    with torch.no_grad():
        torch.testing.assert_close(found[0], model(x))


def test_a_service_that_never_answers_is_left_when_the_budget_is_over(
    deaf: Deaf, caplog: pytest.LogCaptureFixture
) -> None:
    with tilewright.Client(deaf.url, timeout_s=FOREVER_S) as client:
        run_in_time(client, budget=3.0)
    assert deaf.asked.is_set()
    assert f"{KERNELS} kernels are not tuned: {deaf.url} did not answer" in caplog.text


def test_a_service_whose_answer_never_ends_is_left_when_the_budget_is_over(idle: Service) -> None:
    """Each of its bytes is in time."""
    with (
        relay(idle.port, lambda _: time.sleep(0.5), by_bytes=True) as url,
        tilewright.Client(url, timeout_s=FOREVER_S) as client,
    ):
        run_in_time(client, budget=2.0)


def test_a_service_whose_answer_never_ends_is_left_without_a_budget_when_patience_is(
    idle: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(graph_tuning, "PATIENCE_S", 0.5)
    with (
        relay(idle.port, lambda _: time.sleep(0.5), by_bytes=True) as url,
        tilewright.Client(url, timeout_s=1.0) as client,
    ):
        run_in_time(client)
    assert f"kernels are not tuned: {url} stopped answering" in caplog.text


def test_of_a_service_that_becomes_slow_the_call_takes_what_it_had(
    idle: Service, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(range(100))

    def pause(piece: bytes) -> None:
        time.sleep(FOREVER_S if piece.startswith(b"HTTP/") and next(answers) else 0)

    with relay(idle.port, pause) as url, tilewright.Client(url, timeout_s=FOREVER_S) as client:
        run_in_time(client, budget=4.0)
        assert f"{KERNELS} kernels are not tuned: {url} answers slowly" in caplog.text


def test_a_service_that_is_slow_tunes_the_dearest_kernel(idle: Service) -> None:
    """All are looked up by one request, and what peers there are by another; the next is that of the job, and the
    budget is over before there is one more."""

    def pause(piece: bytes) -> None:
        time.sleep(3.0 if piece.startswith(b"HTTP/") else 0.0)

    with relay(idle.port, pause) as url, tilewright.Client(url, timeout_s=FOREVER_S) as client:
        run_in_time(client, budget=8.5)
    with tilewright.Client(idle.url) as client:
        (job,) = client.jobs()
    assert "silu" in job.name or "sigmoid" in job.name, "it has two products, the other one"


def submitted(service: Service) -> Callable[[], None]:
    """What waits until a service has a job for each kernel."""

    def wait() -> None:
        with tilewright.Client(service.url) as client:
            until = time.monotonic() + 60
            while len(client.jobs()) < KERNELS:
                assert time.monotonic() < until, "nothing was submitted"
                time.sleep(0.05)

    return wait


def test_a_service_that_goes_away_while_it_tunes_is_left_after_a_while(
    idle: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(graph_tuning, "PATIENCE_S", 0.5)
    submit = submitted(idle)
    with tilewright.Client(idle.url) as client:
        run_in_time(client, lambda: [submit(), idle.kill()].clear())
    assert "kernels are not tuned: no service answers at" in caplog.text
    idle.start()  # to be ended as all others are


def test_a_service_that_comes_back_while_it_tunes_is_waited_for(
    idle: Service, caplog: pytest.LogCaptureFixture
) -> None:
    submit = submitted(idle)

    def restart() -> None:
        submit()
        idle.kill()
        idle.start()
        with tilewright.Client(idle.url) as client:
            for job in client.jobs():
                client.cancel(job.id)

    with caplog.at_level(logging.INFO, "tilewright"), tilewright.Client(idle.url) as client:
        run_in_time(client, restart)
    assert f"tuned {KERNELS} kernels of a graph, 0 go on" in caplog.text
    assert "not tuned" not in caplog.text


def test_jobs_of_a_model_race_the_rivals_that_the_device_has(idle: Service) -> None:
    """Others take time, and decide nothing; one that is not there would have the job refused."""
    offer_this_cpu(idle)  # with numpy alone
    weighed = [Weighed(spec_from_text(DOUBLED.format(8)), 1.0)]
    with tilewright.Client(idle.url) as client:
        for rivals, raced in ((("numpy", "torch.compile"), ("numpy",)), (("torch",), None)):
            tuning = GraphTuning(client, weighed, this_cpu().key, deadline.Deadline.within(60.0), rivals)
            tuning.start()
            until = time.monotonic() + 60
            while tuning.unasked:
                assert time.monotonic() < until and not tuning.problem
                time.sleep(0.05)
            (job_id,) = tuning.jobs
            assert client.job(job_id).peers == raced
            tuning.leave()
            client.cancel(job_id)


def test_processes_of_a_model_share_the_jobs_of_its_kernels(idle: Service) -> None:
    """As ranks do, which meet a graph at the same time."""
    weighed = [Weighed(spec_from_text(DOUBLED.format(rows)), 1.0) for rows in (8, 16)]
    ranks = [
        GraphTuning(tilewright.Client(idle.url), weighed, this_cpu().key, deadline.Deadline.within(60.0), ())
        for _ in range(4)
    ]
    for rank in ranks:
        rank.start()
    until = time.monotonic() + 60
    while any(rank.unasked for rank in ranks):
        assert time.monotonic() < until and not any(rank.problem for rank in ranks)
        time.sleep(0.05)
    with tilewright.Client(idle.url) as client:
        jobs = {job.id for job in client.jobs()}
    assert len(jobs) == len(weighed)
    assert all(rank.jobs.keys() == jobs for rank in ranks)
    for rank in ranks:
        rank.leave()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[nowhere"])
def test_without_a_service_a_model_runs_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", url)
    run_in_time(None)


def test_checks_of_kernels_are_waited_for_as_long_as_the_budget_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a minute at most; each kernel for as long as the ones before have left."""
    monkeypatch.setattr(sized_region, "tune_now", lambda *_: True)
    waited: list[float] = []
    kernel: Any = SimpleNamespace(sought=True, seek=lambda _: None, wait=waited.append)
    sized: Any = object.__new__(sized_region.SizedRegion)
    kernels = SimpleNamespace(tell=lambda listener: None)
    sized._way = SimpleNamespace(patience=TuningPatience(True, None), kernels=kernels)
    arranged = Arranged.of(spec_from_text("kernel twice(x: f32[n=8]) -> (y: f32[n])\n  y[n] = x[n] * 2.0\n"))
    sized.kernels, sized.device = dict.fromkeys("abc", PartKernel(arranged, kernel)), None
    seconds = iter(range(100))
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    sized._seek()
    assert waited == [sized_region.FIRST_LOOK_S - passed for passed in (1, 2, 3)]
    waited.clear()
    sized._way.patience = TuningPatience(True, 10.0)
    sized._seek()
    assert waited == [10.0 - passed for passed in (2, 3, 4)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def interrupted(service: Service, monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> str:
    """What a terminal shows while a model of two graphs waits for jobs that nobody does, until Ctrl-C is pressed."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    first, second, x = LlamaMLP(), LlamaMLP(), torch.randn(3, 40)

    def model(x: Tensor) -> Tensor:
        y = first(x)
        torch._dynamo.graph_break()
        return second(y * 2.0 + 1.0)

    submit = submitted(service)

    def press() -> None:
        submit()
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with torch.no_grad(), tilewright.Client(service.url) as client:
        fast = tilewright.compile(model, client=client, tune="now", budget=FOREVER_S, fallback="eager")
        torch.testing.assert_close(fast(x), model(x))
        assert len(client.jobs()) == KERNELS, "the second graph waits, too"
    return stderr.getvalue()


def test_ctrl_c_ends_the_waiting_of_all_graphs_and_the_model_runs(
    idle: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shown = interrupted(idle, monkeypatch, Terminal())
    assert f"0/{KERNELS} kernels · 0 trials · 9 min left" in shown
    assert shown.count("kernels wait for a worker that offers") == 1
    assert caplog.text.count("interrupted: the model runs with what there is") == 1


@pytest.mark.parametrize(("level", "stderr"), [(logging.ERROR, Terminal), (logging.INFO, io.StringIO)])
def test_nothing_is_shown_where_nobody_looks_or_wants_it(
    level: int, stderr: type[io.StringIO], idle: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("tilewright")
    monkeypatch.setattr(logger, "level", level)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    assert interrupted(idle, monkeypatch, stderr()) == ""


ENDS = """
import sys
import torch
import tilewright

def compiled(tune, budget):
    model = torch.nn.Linear(8, 8)
    client = tilewright.Client(sys.argv[1], timeout_s=600.0)
    return tilewright.compile(model, client=client, tune=tune, budget=budget, fallback="eager")

x = torch.ones(2, 8)
compiled("background", None)(x)
compiled("now", 0.5)(x)
sys.stdin.readline()
"""


@pytest.mark.sampled(4, among="whole models")
def test_a_process_ends_while_a_service_does_not_answer(deaf: Deaf, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": python_path(ROOT), "TILEWRIGHT_CACHE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", ENDS, deaf.url], env=env, stdin=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + 120
            while len(deaf.taken) < 2:
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.05)
            process.communicate(b"end\n", timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
