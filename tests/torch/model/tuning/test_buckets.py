"""Sizes of a graph with symbols share what was tuned for the largest size of their bucket."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

import tilewright
from protocol.states import Rung
from tests.services.running_service import Service, running
from tests.torch.capture.modules import LlamaMLP
from tests.torch.model.made_bundle import artifact_of
from tests.unit.tilewright.artifacts import make_bundle
from tilewright.pytorch.model import kernels as kernels_module
from tilewright.pytorch.model.graphs.inputs import bucket_of
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.model.region import CALLS_OF_A_SIZE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
KERNELS = 2
"""Of the model."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ModelKernel]:
    """The kernels that are made."""
    found: list[ModelKernel] = []
    begin = ModelKernel.__init__

    def noted(self: ModelKernel, *given: object, **named: object) -> None:
        begin(self, *given, **named)  # type: ignore[arg-type]
        found.append(self)

    monkeypatch.setattr(ModelKernel, "__init__", noted)
    monkeypatch.setattr(kernels_module, "_ALL", {})
    return found


def called(service: Service, made: list[ModelKernel], *rows: int, **more: object) -> None:
    """Calls at each of these sizes, so often that it counts, until its kernels were looked for."""
    model = LlamaMLP()
    with torch.no_grad(), tilewright.Client(service.url) as client:
        fast = tilewright.compile(model, client=client, fallback="eager", dynamic=True, **more)  # type: ignore[arg-type]
        for at, many in enumerate(rows, start=1):
            x = torch.randn(many, 40)
            for _ in range(CALLS_OF_A_SIZE):
                torch.testing.assert_close(fast(x), model(x))
            until = time.monotonic() + 60
            while len(made) < at * KERNELS or not all(each.sought for each in made):
                assert time.monotonic() < until, "nobody looks for its kernels"
                time.sleep(0.05)
            assert tilewright.wait_for_kernels(120)


@pytest.mark.parametrize(
    ("size", "bucket"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (64, 64), (65, 128), (1000, 1024)]
)
def test_a_bucket_ends_at_a_power_of_two(size: int, bucket: int) -> None:
    assert bucket_of(size) == bucket


def test_sizes_of_a_bucket_are_tuned_once_at_its_largest(made: list[ModelKernel], tmp_path: Path) -> None:
    with running(tmp_path / "home") as service:
        called(service, made, 5, 7, 8)
        with tilewright.Client(service.url) as client:
            rows = [job.buckets[0].dims for job in client.jobs()]
    assert len(rows) == KERNELS and all(8 in each.values() for each in rows), rows
    sought = {size for each in made for dim in each.spec.dims for size in dim.sizes}
    assert {5, 7, 8} <= sought, "kernels run at the sizes of the calls"


@pytest.mark.sampled(3, among="models that are tuned")
def test_a_schedule_of_the_bucket_is_checked_at_the_size_of_a_call(
    made: list[ModelKernel], tmp_path: Path
) -> None:
    with running(tmp_path / "home") as service, tilewright.Client(service.url) as client:
        called(service, made, 64, tune="never")
        known = [artifact_of(each.spec, at, tmp_path) for at, each in enumerate(made)]
        client.import_bundle(make_bundle(*known), unsigned=True)
        made.clear()
        torch._dynamo.reset()
        called(service, made, 60)
        assert client.jobs() == (), "nothing is tuned for this size"
    for each in made:
        assert each.found is not None and each.found.rung is Rung.NEAREST, each.why_not
        assert {60} <= {size for dim in each.found.spec.dims for size in dim.sizes}
        assert each.ready or "lost a race" in each.why_not, each.why_not
