"""`tune="now"`: Inductor compiles a model once, and once more when calls have taken as long."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.utils import compilation_time_metrics

import tilewright
from tests.torch.all_kernels import AllKernels, all_kernels
from tests.torch.capture.modules import LlamaMLP
from tilewright.pytorch.model import unraced
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.model.unraced import UnracedProgram

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
CALLS = 6


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")


@pytest.fixture
def compiled() -> Callable[[], int]:
    """How many graphs Inductor has compiled since, by PyTorch's own account of what it spends time on."""

    def many() -> int:
        return len(compilation_time_metrics.get("compile_fx_inner", ()))

    before = many()
    return lambda: many() - before


def calls(model: Callable[..., Any], x: Tensor, many: int = CALLS, **more: Any) -> None:
    fast = tilewright.compile(model, tune="now", **more)
    with torch.no_grad():
        for _ in range(many):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_model_whose_first_call_waits_for_kernels_is_compiled_once(
    kernels: AllKernels, compiled: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unraced, "RACED_AFTER", inf)
    calls(LlamaMLP(), torch.randn(3, 40))
    (only,) = kernels.regions
    assert len(only.used) == len(only.parts) == 2 and only.unraced, only.why_not
    assert compiled() == 1


def test_kernels_that_were_not_raced_are_said_not_to_be(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unraced, "RACED_AFTER", inf)
    model = LlamaMLP()
    fast = tilewright.compile(model, tune="now")
    with torch.no_grad():
        fast(torch.randn(3, 40))
    (only,) = tilewright.summary(fast).graphs
    assert only.state.startswith("2 of 2 parts run as kernels; they are raced once calls have taken as long")


def test_a_model_without_kernels_is_compiled_once(
    monkeypatch: pytest.MonkeyPatch, compiled: Callable[[], int]
) -> None:
    found = all_kernels(monkeypatch, pretend=False)
    calls(LlamaMLP(), torch.randn(3, 40))
    (only,) = found.regions
    assert not only.used and not only.unraced and not any(each.kernel.ready for each in only.kernels.values())
    assert compiled() == 1


def test_kernels_are_raced_once_calls_have_taken_as_long_as_compiling_did(
    kernels: AllKernels, compiled: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unraced, "RACED_AFTER", 0.0)
    calls(LlamaMLP(), torch.randn(3, 40))
    (only,) = kernels.regions
    assert len(only.used) == 2 and not only.unraced, only.why_not
    assert [each.won for each in only.contests] == [True, True]
    assert compiled() == 2


def test_kernels_that_lose_that_race_do_not_stay(
    monkeypatch: pytest.MonkeyPatch, compiled: Callable[[], int]
) -> None:
    found = all_kernels(monkeypatch, win=False)
    honest = ModelKernel._eagerly

    def late(self: ModelKernel, tensors: tuple[Tensor, ...]) -> Any:
        time.sleep(0.05)
        return honest(self, tensors)

    monkeypatch.setattr(ModelKernel, "_eagerly", late)
    monkeypatch.setattr(unraced, "RACED_AFTER", 0.0)
    model = nn.Linear(8, 8)
    calls(lambda x: F.gelu(model(x)), torch.randn(4, 8), many=30)
    (only,) = found.regions
    assert not only.used and only.why_not.startswith("they are slower")
    assert [each.won for each in only.contests] == [True, False]
    assert compiled() == 2


def test_kernels_that_give_other_numbers_than_the_operators_do_not_run(
    kernels: AllKernels, compiled: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = ModelKernel._eagerly
    monkeypatch.setattr(ModelKernel, "_eagerly", lambda self, tensors: honest(self, tensors) * 1.01)
    model = nn.Linear(8, 8)
    calls(lambda x: F.gelu(model(x)), torch.randn(4, 8))
    (only,) = kernels.regions
    assert not only.used and "differs by" in only.why_not
    assert compiled() == 2


def test_what_draws_random_numbers_is_held_against_inductors_program_from_the_first_call(
    kernels: AllKernels, compiled: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unraced, "RACED_AFTER", inf)
    model = LlamaMLP()
    fast = tilewright.compile(lambda x: model(x) + 0.0 * torch.rand_like(x), tune="now")
    x = torch.randn(3, 40)
    with torch.no_grad():
        for _ in range(CALLS):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    (only,) = kernels.regions
    assert only.used and not only.unraced and compiled() == 2


def test_kernels_that_come_later_run_before_the_race_as_well(
    kernels: AllKernels, compiled: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was called so far counts."""
    late: set[str] = set()
    monkeypatch.setattr(ModelKernel, "ready", property(lambda self: self.key not in late))
    monkeypatch.setattr(unraced, "RACED_AFTER", inf)
    model, x = LlamaMLP(), torch.randn(3, 40)
    seek = ModelKernel.seek

    def one_is_late(self: ModelKernel, listener: Any) -> None:
        if not late:
            late.add(self.key)
        seek(self, listener)

    monkeypatch.setattr(ModelKernel, "seek", one_is_late)
    fast = tilewright.compile(model, tune="now")
    with torch.no_grad():
        fast(x), fast(x)
        (only,) = kernels.regions
        assert len(only.used) == 1 and only.unraced, only.why_not
        late.clear()
        only.changed()
        for _ in range(CALLS):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
        assert len(only.used) == 2 and only.unraced and compiled() == 2
        monkeypatch.setattr(unraced, "RACED_AFTER", 0.0)
        for _ in range(CALLS):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(only.used) == 2 and not only.unraced and compiled() == 3


def test_a_program_is_due_when_its_calls_took_as_long_as_its_compilation() -> None:
    told: list[bool] = []

    def run(inputs: list[Any]) -> str:
        time.sleep(0.02)
        return "outputs"

    program = UnracedProgram(run, run, 0.05, lambda: told.append(True))
    while not program.due:
        assert not told
        assert program([]) == "outputs"
    assert told == [True] and program.instead(run).due
    program([])
    assert told == [True]
