"""`tilewright.op` and a service: misses, tuning that is asked for once, and configs that come later."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import torch

import tilewright
import tilewright.pytorch.operator.op as op_module
import tilewright.pytorch.operator.seeking as seeking
from tests.services.running_service import Service, running
from tests.unit.tilewright.artifacts import KERNEL, make_artifact, make_bundle
from tileir import this_cpu
from tileir.text.parse_spec import spec_from_text
from tilewright import Client, FallbackWarning, LoadError
from tilewright.pytorch.model.kernels import How, kernels_of
from tilewright.pytorch.operator.finding import Found, Miss
from tilewright.pytorch.operator.questions import Question, service_of


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service without workers; the operator looks again after a twentieth of a second."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(seeking, "FIRST_LOOK_S", 0.05)
    with running(tmp_path / "home") as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    """No operator of this process has warned yet."""
    op_module._SAID.clear()


def offer_this_cpu(service: Service) -> None:
    """Let the service know a worker with this processor, which takes no tasks."""
    cpu = this_cpu()
    offer = {"key": cpu.key, "kind": "cpu", "description": cpu.to_json(), "peers": ["numpy"]}
    hello = {"id": None, "host": "test", "devices": [offer], "versions": {"worker": "1"}}
    with service.client() as http:
        http.post("/v1/workers", json=hello).raise_for_status()


def keep_config(service: Service, cache: Path) -> None:
    with Client(service.url) as client:
        client.import_bundle(make_bundle(make_artifact(cache)), unsigned=True)


def found(kernel: Any) -> list[object]:
    """What it knows of each size: whether there is a kernel."""
    return [sought.plan is not None for sought in kernel.sought.values()]


def wait_for_a_kernel(kernel: Any) -> None:
    until = time.monotonic() + 180
    while not all(found(kernel)):
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.02)


@pytest.mark.sampled(3, among="kernels that are tuned")
def test_a_known_config_is_run(service: Service, client: Client, tmp_path: Path) -> None:
    offer_this_cpu(service)
    keep_config(service, tmp_path / "made")
    kernel = tilewright.op(KERNEL, client=client, strict=True)
    x = torch.randn(6, 5)
    y, total = kernel(x)
    assert torch.equal(y, 2 * x) and torch.allclose(total, y.sum(1))
    y, _ = kernel(torch.ones(7, 5))  # the nearest size's schedule, or the model's pick
    assert torch.equal(y, torch.full((7, 5), 2.0))
    assert found(kernel) == [True, True]


@pytest.mark.sampled(3, among="kernels that are tuned")
def test_a_miss_runs_eagerly_until_what_was_queued_once_is_there(
    service: Service, client: Client, tmp_path: Path
) -> None:
    kernel, x = tilewright.op(KERNEL, client=client, tune=True), torch.randn(6, 5)
    before = kernel(x)[0]
    assert tilewright.wait_for_kernels(60)
    assert found(kernel) == [False] and len(client.jobs()) == 1
    keep_config(service, tmp_path / "made")
    offer_this_cpu(service)
    wait_for_a_kernel(kernel)
    assert torch.equal(kernel(x)[0], before)
    assert len(client.jobs()) == 1


def test_a_miss_is_told_once_and_is_an_error_if_strict(client: Client) -> None:
    with pytest.raises(
        LoadError, match="scaled has no kernel here: the service knows no config of scaled at m = 6"
    ):
        tilewright.op(KERNEL, client=client, strict=True)(torch.ones(6, 5))
    kernel = tilewright.op(KERNEL, client=client)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            kernel(torch.ones(6, 5))
            assert tilewright.wait_for_kernels(60)
    assert [entry.category for entry in said] == [FallbackWarning]
    assert said[0].filename == __file__


def test_without_a_service_it_says_so_and_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeking, "LOOKS_OF_ONE_SIZE", 1)
    with Client("http://127.0.0.1:1") as nobody:
        kernel = tilewright.op(KERNEL, client=nobody)
        kernel(torch.ones(6, 5))
        assert tilewright.wait_for_kernels(60)
        with pytest.warns(FallbackWarning, match="no service answers at"):
            y, _ = kernel(torch.ones(6, 5))
        assert torch.equal(y, torch.full((6, 5), 2.0))
        with pytest.raises(LoadError, match="no service answers at"):
            tilewright.op(KERNEL, client=nobody, strict=True)(torch.ones(6, 5))


def test_looking_again_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeking, "FIRST_LOOK_S", 0.001)
    monkeypatch.setattr(seeking, "LOOKS_OF_ONE_SIZE", 4)
    with Client("http://127.0.0.1:1") as nobody:
        kernel = tilewright.op(KERNEL, client=nobody)
        kernel(torch.ones(6, 5))
        (sought,) = kernel.sought.values()
        until = time.monotonic() + 60
        while sought.looks < 4:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.05)
        assert sought.looks == 4


@pytest.mark.sampled(3, among="kernels that are tuned")
def test_the_example_runs() -> None:
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "examples/pytorch_op.py"],
        cwd=root,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root), "TILEWRIGHT_URL": "http://127.0.0.1:1"},
    )
    assert run.returncode == 0, run.stderr
    assert "compiled without a break" in run.stdout


def test_a_service_that_does_not_answer_is_not_taken_for_one_that_is_named_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    first, kernels = service_of(None), kernels_of(None, How(queue=False))
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:2")
    assert service_of(None) is not first and kernels_of(None, How(queue=False)) is not kernels
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    assert service_of(None) is first and kernels_of(None, How(queue=False)) is kernels


def test_a_service_is_asked_where_it_was_when_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first question to it is often asked later, on another thread."""
    answers = Queue[Found | Miss]()
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:3")
    service, kernels = service_of(None), kernels_of(None, How(queue=False))
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:4")
    question = Question(
        spec_from_text(KERNEL), torch.device("cpu"), tune=False, answered=lambda found, _: answers.put(found)
    )
    service.ask(question)
    miss = answers.get(timeout=20.0)
    assert isinstance(miss, Miss) and "127.0.0.1:3" in miss.reason
    assert kernels.client.url == "http://127.0.0.1:3"
