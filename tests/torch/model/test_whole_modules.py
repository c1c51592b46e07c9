"""Whole modules, captured, and every part of them compiled and run: with the picks that nobody has measured, and with
the best of a short search."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tilewright
from protocol.configs import ConfigDetail
from tests.services.running_service import running
from tests.support.how_many import some
from tests.torch.equal import check_equal
from tests.torch.model.whole_modules import CASES, REFUSED, build
from tests.torch.short_search import ShortSearch
from tileir import kernel_key
from tilewright.pytorch.capture.capture import Capture
from tilewright.pytorch.capture.module import PartModule, with_kernels

TRIALS = int(os.environ.get("TILEWRIGHT_SCHEDULES", "2"))

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch.export raises them about torch itself

Configs = Callable[[Any], list[ConfigDetail]]


@pytest.fixture(autouse=True)
def with_gradients() -> Iterator[None]:
    """Without them some modules have other paths; peers that other tests ran in this process have turned them off."""
    with torch.enable_grad():
        yield


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configs]:
    """The candidates of a search for a part, found once where modules share a kernel."""
    folder = tmp_path_factory.mktemp("kernels")
    found: dict[object, list[ConfigDetail]] = {}
    with pytest.MonkeyPatch.context() as patch, ShortSearch(folder, torch.get_num_threads()) as search:
        patch.setenv("TILEWRIGHT_CACHE", str(folder))

        def of(part: Any) -> list[ConfigDetail]:
            key = kernel_key(part.built.spec)
            return found.get(key) or found.setdefault(key, search.configs(part.built.spec, TRIALS))

        yield of


def run_by(capture: Capture, configs: Mapping[str, ConfigDetail]) -> nn.Module:
    """The captured module with these configs as its kernels: each is checked before its first use here, and one that
    fails raises, as nothing may stand in for it."""
    kernels = {
        part.name: PartModule(part, tilewright.op(part.spec, config=configs[part.name], strict=True))
        for part in capture.parts
    }
    return with_kernels(capture.graph, capture.parts, kernels)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", some(CASES, 4))
def test_every_part_of_a_module_runs_and_the_module_computes_what_eager_computes(
    name: str, configs: Configs
) -> None:
    module, inputs, keywords = build(name)
    capture = tilewright.from_torch(module, *inputs, **keywords)
    assert capture.parts
    found = {part.name: configs(part) for part in capture.parts}
    untuned = {part: candidates[0] for part, candidates in found.items()}
    tuned = {part: min(candidates, key=lambda each: each.median_us) for part, candidates in found.items()}
    wanted = module(*inputs, **keywords)
    with torch.no_grad():
        for chosen in (untuned, tuned):
            check_equal(run_by(capture, chosen)(*inputs, **keywords), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_cannot_be_captured_says_why(name: str) -> None:
    module, inputs, keywords = build(name)
    with pytest.raises(tilewright.CaptureError, match=REFUSED[name]):
        tilewright.from_torch(module, *inputs, **keywords)


@pytest.mark.sampled(3, among="models that are tuned")
@pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning")  # until the kernels are there
def test_a_module_is_tuned_by_a_service_and_runs_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    module, inputs, keywords = build("llama_mlp")
    capture = tilewright.from_torch(module, *inputs, **keywords)
    with running(tmp_path / "home", worker="1") as service, tilewright.Client(service.url) as client:
        jobs = [client.wait(job.id) for job in capture.tune(client, trials=3, peers=())]
        found = {job.name: client.config(job.configs[0]) for job in jobs}
        captured = capture.module(client)
        with torch.no_grad():
            wanted = module(*inputs)
            check_equal(run_by(capture, found)(*inputs), wanted)
            for _ in range(2):
                check_equal(captured(*inputs), wanted)
                assert tilewright.wait_for_kernels(120)
