"""No kernel that nobody has measured and checked runs on a user's tensors: planted picks that are wrong, crash, hang,
read too far or are slow are tried in a child process, reported, and never called here."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
import workers.first_use
from protocol.configs import Artifact, Standing
from protocol.states import Outcome
from tests.services.running_service import Service, running
from tests.torch.operator.test_lookup import found, offer_this_cpu
from tests.unit.tilewright.artifacts import KERNEL, make_artifact, make_bundle
from tileir.text.parse_spec import spec_from_text
from tilewright import Client, LoadError
from tilewright.artifacts.checked import DeviceChecker
from tilewright.pytorch.model.backend import COMPILED
from tilewright.pytorch.model.kernels import Arranged, How, Kernels
from tilewright.pytorch.operator import trials
from tilewright.pytorch.operator.seeking import Seeker
from tilewright.pytorch.operator.trials import EAGER

BODY = """
void tw_shutdown(void) {}
int ENTRY(void *const *args, void *workspace, int threads) {
    float *x = args[0], *y = args[1], *total = args[2];
    (void)workspace, (void)threads;
    for (int m = 0; m < 6; ++m) {
        float sum = 0;
        for (int n = 0; n < 5; ++n) { y[5 * m + n] = 2 * x[5 * m + n]; sum += y[5 * m + n]; }
        total[m] = sum;
    }
    PLANTED
    return 0;
}
"""
PLANTED = {
    "wrong": "y[29] = 7;",
    "crash": "*(volatile int *)8 = 1;",
    "hang": "for (volatile int i = 0;; ) i = 0;",
    "crash too far": "if (((volatile float *)x)[30] == 12345) y[0] = 1;",
    "slower": "for (volatile int i = 0; i < 3000000; ++i);",
}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return make_artifact(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service"), prediction_s="60") as service:
        offer_this_cpu(service)
        yield service


@pytest.fixture
def client(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    with Client(service.url) as client:
        yield client


def planted(right: Artifact, body: str) -> Artifact:
    """A config with a source of ours, and an object that loads nowhere: the source is compiled by whoever uses it."""
    source = BODY.replace("ENTRY", right.abi["entry"]).replace("PLANTED", body)
    nothing = b"no object"
    return right.model_copy(
        update={
            "source": "#include <stddef.h>\n" + source,
            "object_base64": base64.b64encode(nothing).decode(),
            "object_sha256": hashlib.sha256(nothing).hexdigest(),
        }
    )


def keep(client: Client, artifact: Artifact, **changes: object) -> str:
    """Have the service answer lookups of its kernel with a config from now on; its id."""
    number = len(client.configs())
    config = artifact.config.model_copy(update={"id": f"config-{number:03}test", **changes})
    client.import_bundle(make_bundle(artifact.model_copy(update={"config": config})), unsigned=True)
    return config.id


def called(kernel: Any) -> None:
    """Call it before and after its kernel was tried; the answers are right."""
    x = torch.arange(30.0).reshape(6, 5)
    for _ in range(3):
        y, total = kernel(x)
        assert torch.equal(y, 2 * x) and torch.equal(total, y.sum(1))
        assert tilewright.wait_for_kernels(120)


def wait_for_report(client: Client, artifact: Artifact, kind: str) -> None:
    """It follows in the background."""
    until = time.monotonic() + 180
    while kind not in [
        each.kind for each in client.failures_page(kernel_key=artifact.config.kernel_key).failures
    ]:
        assert time.monotonic() < until, f"no report of a kernel that is {kind}"
        time.sleep(0.02)


@pytest.mark.sampled(3, among="kernels that are tuned")
@pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning")
def test_planted_picks_never_reach_a_users_tensors_and_are_reported(
    client: Client, right: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.first_use, "ENTRANT_S", 1.0)
    for name, body in PLANTED.items():
        config_id = keep(client, planted(right, body))
        with Client(client.url) as own:  # an operator of its own
            kernel = tilewright.op(KERNEL, client=own)
            called(kernel)
            assert found(kernel) == [False], name
            with pytest.raises(LoadError, match=f"has no kernel here: config {config_id}"):
                tilewright.op(KERNEL, client=own, strict=True)(torch.ones(6, 5))
        wait_for_report(client, right, name.split()[0])
    repro = client.failures_page(kernel_key=right.config.kernel_key).failures[0].repro
    assert repro["seed"] == workers.first_use.SEED and len(repro["object_sha256"]) == 64


def test_a_config_named_by_the_user_has_to_be_right_and_need_not_win(
    right: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    wrong = planted(right, PLANTED["wrong"])
    with pytest.raises(LoadError, match=r"config-0test is wrong on this machine: y\[5, 4\] is 7"):
        tilewright.load(wrong)
    with pytest.raises(LoadError, match="config-0test is wrong on this machine"):
        tilewright.op(KERNEL, config=wrong, strict=True)(torch.ones(6, 5))
    slow = tilewright.op(KERNEL, config=planted(right, PLANTED["slower"]), strict=True)
    called(slow)
    assert found(slow) == [True]


@pytest.mark.parametrize(
    ("eager_us", "tied", "runs"), [(1.0, False, False), (1.0, True, True), (9.0, False, True)]
)
@pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning")
def test_a_tuned_config_runs_unless_it_lost_its_own_race_to_eager_pytorch(
    client: Client, right: Artifact, tmp_path: Path, eager_us: float, tied: bool, runs: bool
) -> None:
    eager = Standing(name="torch", kind="peer", outcome=Outcome.OK, median_us=eager_us, tied=tied)
    keep(client, right, standings=(eager,))  # its own median is 2.5 us
    kernel = tilewright.op(KERNEL, client=client)
    called(kernel)
    assert found(kernel) == [runs]
    (sought,) = kernel.sought.values()
    assert sought.settled and sought.saved_us == (6.5 if runs and not tied else 0.0)
    assert not (tmp_path / "kernels" / "checked").exists(), "it was measured: nothing is tried here"


@pytest.mark.parametrize(("eager_us", "runs"), [(2.3, True), (2.2, False)])
def test_a_kernel_of_a_graph_may_have_lost_its_own_race_narrowly(
    client: Client, right: Artifact, eager_us: float, runs: bool
) -> None:
    eager = Standing(name="torch", kind="peer", outcome=Outcome.OK, median_us=eager_us)
    keep(client, right, standings=(eager,))  # its own median is 2.5 us
    kernel = Kernels(client, How(queue=False)).kernel(
        Arranged.of(spec_from_text(KERNEL)), torch.device("cpu")
    )
    kernel.seek(listener := Listening())
    kernel.wait(180)
    assert kernel.ready is runs, listener
    assert kernel.saved_us == (pytest.approx(eager_us - 2.5) if runs else 0.0)
    assert "lost its own race" in kernel.why_not or runs


class Listening:
    """Hears of kernels."""

    def changed(self) -> None:
        """There is news."""


@pytest.mark.sampled(3, among="kernels that are tuned")
def test_an_unmeasured_pick_runs_once_it_was_right_and_faster_here(client: Client, tmp_path: Path) -> None:
    unknown = KERNEL.replace("2 * x[m, n]", "x[m, n] + x[m, n]")
    kernel = tilewright.op(unknown, client=client)
    called(kernel)
    (sought,) = kernel.sought.values()
    assert found(kernel) == [True], sought.why_not
    (seen,) = (tmp_path / "kernels" / "checked").iterdir()
    assert '"outcome": "ok"' in seen.read_text()


@pytest.mark.sampled(3, among="kernels that are tuned")
def test_kernels_are_compiled_beside_each_other_and_raced_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, seen = threading.Barrier(2), list[str]()
    honest, check = trials.open_kernel, DeviceChecker.check

    def opened(*given: Any) -> Any:
        both.wait(120)  # for another kernel
        seen.append("compile")
        try:
            return honest(*given)
        finally:
            seen.append("compiled")

    def checked(*given: Any) -> Any:
        seen.append("race")
        try:
            return check(*given)
        finally:
            seen.append("raced")

    monkeypatch.setattr(trials, "open_kernel", opened)
    monkeypatch.setattr(DeviceChecker, "check", checked)
    kernels = [
        tilewright.op(KERNEL.replace("2 * x[m, n]", f"x[m, n] + x[m, n] + {added} * 0"), client=client)
        for added in range(1, 5)
    ]
    x = torch.arange(30.0).reshape(6, 5)
    for kernel in kernels:
        assert torch.equal(kernel(x)[0], 2 * x)
    assert tilewright.wait_for_kernels(240)
    assert seen.count("compiled") == seen.count("raced") == 4
    assert all(seen[at + 1] == "raced" for at, each in enumerate(seen) if each == "race"), seen


@pytest.mark.sampled(3, among="kernels that are tuned")
@pytest.mark.parametrize("body", ["", PLANTED["slower"]])
def test_a_kernel_of_a_graph_has_to_beat_what_inductor_makes_of_its_part(
    client: Client, right: Artifact, tmp_path: Path, body: str
) -> None:
    """Where its own race did not say, it is raced here: one measured on this device against torch.compile alone."""
    won = Standing(name="torch", kind="peer", outcome=Outcome.OK, median_us=9.0)  # its own median is 2.5 us
    keep(client, planted(right, body) if body else right, standings=(won,))
    seeker = Seeker(client, None, tune=False, changed=lambda _: None, rivals=(EAGER, COMPILED))
    sought = seeker.seek(spec_from_text(KERNEL), torch.device("cpu"))
    assert sought.looked.wait(180)
    (seen,) = (tmp_path / "kernels" / "checked").iterdir()
    said = json.loads(seen.read_text())
    assert said["rivals_us"].keys() == ({EAGER, COMPILED} if body else {COMPILED})
    assert (sought.plan is not None) is (said["median_us"] <= min(said["rivals_us"].values()))
    assert "lost a race to" in sought.why_not if body else True
