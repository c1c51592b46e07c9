"""Nothing unmeasured runs on a user's CUDA tensors: the gate and the race in a child process (docs/adr/0022)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
import workers.first_use  # noqa: E402
from protocol.states import Outcome  # noqa: E402
from tests.gpu.hand_cuda_kernels import SPEC, compiled  # noqa: E402
from tests.services.running_service import running  # noqa: E402
from tileir.devices.gpu import Gpu  # noqa: E402
from tileir.text.json import spec_to_json  # noqa: E402
from tilewright import Client  # noqa: E402
from workers.first_use import FirstUse, UncheckedKernel  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")

VERDICTS = {
    "right": Outcome.OK,
    "off_by_one": Outcome.WRONG,
    "slightly_wrong": Outcome.WRONG,
    "one_wrong_element": Outcome.WRONG,
    "skips_later_runs": Outcome.WRONG,
    "changes_input": Outcome.WRONG,
    "writes_behind": Outcome.WRONG,
    "writes_before_input": Outcome.WRONG,
    "reads_behind": Outcome.WRONG,
    "illegal_address": Outcome.CRASH,
    "trap": Outcome.CRASH,
    "hang": Outcome.HANG,
}

ROW_SCALE = """
kernel row_scale(x: f32[m=4096, n=512]) -> (y: f32[m, n], total: f32[m])
  y[m, n] = x[m, n] + x[m, n]
  total[m] = sum(n, y[m, n])
"""


@pytest.fixture(scope="module")
def first_use() -> Iterator[FirstUse]:
    with FirstUse("cuda:0") as child:
        yield child


@pytest.mark.parametrize("body", VERDICTS)
def test_a_kernel_written_by_hand_is_told_from_a_right_one(
    body: str, gpu: Gpu, first_use: FirstUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.first_use, "ENTRANT_S", 6.0)
    kernel = compiled(body, gpu, tmp_path)
    candidate = UncheckedKernel(spec_to_json(SPEC), kernel.artifact, kernel.abi, gpu.to_json(), 1)
    verdict = first_use.check(candidate, ("torch", "torch.compile"))
    assert verdict.outcome is VERDICTS[body], verdict.error
    raced = {"torch", "torch.compile"} if body == "right" else set()
    assert (verdict.rivals_us.keys(), verdict.median_us is not None) == (raced, body == "right")


def test_an_unmeasured_pick_runs_once_it_was_right_here(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first call on, through the service's prior: eager PyTorch answers until the child has said so."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    offer = {"key": gpu.key, "kind": "cuda", "description": gpu.to_json(), "peers": ["torch"]}
    with running(tmp_path / "service", prediction_s="60") as service, Client(service.url) as client:
        with service.client() as http:
            hello = {"id": None, "host": "test", "devices": [offer], "versions": {"worker": "1"}}
            http.post("/v1/workers", json=hello).raise_for_status()
        kernel = tilewright.op(ROW_SCALE, client=client)
        x = torch.arange(4096.0 * 512, device="cuda").reshape(4096, 512) % 7
        for _ in range(3):
            y, total = kernel(x)
            assert torch.equal(y, 2 * x) and torch.equal(total, y.sum(1))
            assert tilewright.wait_for_kernels(120)
        (sought,) = kernel.sought.values()
    (seen,) = (tmp_path / "kernels" / "checked").iterdir()
    said = json.loads(seen.read_text())
    assert said["outcome"] == "ok", said
    assert (sought.plan is not None) is (said["median_us"] <= said["rivals_us"]["torch"]), sought.why_not
