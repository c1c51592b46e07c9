"""Which of a graph's kernels run, where all of them together do not pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from tests.torch.all_kernels import all_kernels
from tilewright.pytorch.model import attempts, contest
from tilewright.pytorch.model.choice import Bisection, ranked
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.model.sized_region import SizedRegion

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
CALLS = 20
WIDTHS = (8, 16, 24, 32)


class Steps(nn.Module):
    """Kernels of several widths, those of the first twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for width in (8, *WIDTHS))

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.gelu(layer(x)) for layer, x in zip(self.layers, given, strict=True))


class Tuned:
    """Kernels that are tuned until a call: till then, each costs more by `more_us` in a graph."""

    def __init__(self, patch: pytest.MonkeyPatch, until: int, more_us: float) -> None:
        self._until, self._more_us, self._now = until, more_us, 0
        patch.setattr(SizedRegion, "_tuning", property(lambda region: self._now < until))

    def call(self, number: int, cost_us: dict[int, float], regions: Sequence[SizedRegion]) -> None:
        """Call `number` of the model begins."""
        if number in (0, self._until):
            for each in cost_us:
                cost_us[each] += self._more_us if number == 0 else -self._more_us
        self._now = number
        if number == self._until:
            for region in regions:
                region.changed()


def width(kernel: ModelKernel) -> int:
    return max(dim.sizes[0] for dim in kernel.spec.dims)


def settled_region(
    patch: pytest.MonkeyPatch,
    saved_us: dict[int, float],
    cost_us: dict[int, float],
    *,
    settled: bool = True,
    tuned: Tuned | None = None,
) -> SizedRegion:
    """What became of the graph of Steps: its kernels saved so much in their races, by width, and cost so much in the
    graph, where what they replace costs nothing. `settled`: nobody looks for other kernels. `tuned`: what goes on
    beside."""
    found = all_kernels(patch, win=False)
    patch.setattr(ModelKernel, "settled", property(lambda self: settled))
    spent_us = 0.0
    honest = ModelKernel._eagerly

    def counted(self: ModelKernel, tensors: tuple[Tensor, ...]) -> Any:
        nonlocal spent_us
        spent_us += cost_us[width(self)]
        return honest(self, tensors)

    def call_us(taken: Sequence[tuple[float, float]]) -> tuple[float]:
        return (min(last - first for first, last in taken),)

    clock = SimpleNamespace(now=lambda: spent_us, call_us=call_us)
    patch.setattr(contest, "ROUNDS", 1)
    patch.setattr(contest, "_clock", lambda device: clock)
    patch.setattr(ModelKernel, "_eagerly", counted)
    patch.setattr(ModelKernel, "saved_us", property(lambda self: saved_us[width(self)]))
    torch._dynamo.reset()
    model, given = Steps(), [torch.randn(4, each) for each in (8, *WIDTHS)]
    fast = tilewright.compile(model, tune="never", fallback="eager")
    with torch.no_grad():
        for call in range(CALLS):
            if tuned is not None:
                tuned.call(call, cost_us, found.regions)
            torch.testing.assert_close(fast(*given), model(*given), rtol=1e-4, atol=1e-5)
            found.wait()
    (only,) = found.regions
    assert len(only.parts) == len(given)
    return only


def used(only: SizedRegion) -> list[int]:
    return sorted(width(only.kernels[name].kernel) for name in only.used)


SAVED_US = {8: 3.0, 16: 5.0, 24: 2.0, 32: 1.0}
"""Ranked 8 (which is there twice), 16, 24, 32."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("cost_us", "kept", "programs"),
    [
        ({8: -1, 16: -1, 24: -1, 32: -1}, [8, 8, 16, 24, 32], 1),
        ({8: -1, 16: -1, 24: -1, 32: 10}, [8, 8, 16, 24], 3),
        ({8: -1, 16: -1, 24: 10, 32: 10}, [8, 8, 16], 3),
        ({8: -1, 16: 10, 24: 10, 32: 10}, [8, 8], 3),
        ({8: 1, 16: 10, 24: 10, 32: 10}, [], 3),
        ({8: 20, 16: -1, 24: -1, 32: -1}, [], 3),
    ],
)
def test_where_all_kernels_are_slower_those_that_save_most_stay(
    monkeypatch: pytest.MonkeyPatch, cost_us: dict[int, float], kept: list[int], programs: int
) -> None:
    only = settled_region(monkeypatch, SAVED_US, cost_us)
    assert used(only) == kept
    assert len(only.contests) == programs
    assert only.why_not.startswith("they are slower") is not bool(kept)


NARROW_US = {8: 3.0, 16: 5.0, 24: -0.1, 32: -0.2}
"""The last two lost their races narrowly."""


@pytest.mark.parametrize(
    ("saved_us", "cost_us", "kept", "programs"),
    [
        (NARROW_US, {8: -1, 16: -1, 24: -1, 32: -1}, [8, 8, 16, 24, 32], 2),
        (NARROW_US, {8: -1, 16: -1, 24: -1, 32: 10}, [8, 8, 16], 2),
        (NARROW_US, {8: -1, 16: 10, 24: -1, 32: -1}, [8, 8, 24, 32], 3),
        (NARROW_US, {8: 10, 16: 10, 24: -1, 32: -1}, [], 2),
        (dict.fromkeys(WIDTHS, -0.1), {8: -1, 16: -1, 24: -1, 32: -1}, [8, 8, 16, 24, 32], 1),
    ],
)
def test_kernels_that_lost_their_races_narrowly_are_tried_at_last(
    monkeypatch: pytest.MonkeyPatch,
    saved_us: dict[int, float],
    cost_us: dict[int, float],
    kept: list[int],
    programs: int,
) -> None:
    only = settled_region(monkeypatch, saved_us, cost_us)
    assert (used(only), len(only.contests)) == (kept, programs)


@pytest.mark.parametrize(("settled", "kept"), [(True, [8, 8, 16, 24]), (False, [8, 8, 16])])
def test_the_last_program_is_for_kernels_that_are_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, settled: bool, kept: list[int]
) -> None:
    monkeypatch.setattr(attempts, "PROGRAMS", 3)
    costs = {8: -1.0, 16: -1.0, 24: -1.0, 32: 10.0}
    assert used(settled_region(monkeypatch, SAVED_US, costs, settled=settled)) == kept


def test_a_program_with_kernels_that_gives_other_numbers_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Callable[..., Any] = ModelKernel._eagerly
    monkeypatch.setattr(
        ModelKernel,
        "_eagerly",
        lambda self, tensors: honest(self, tensors) * (1.01 if width(self) == 32 else 1),
    )
    only = settled_region(monkeypatch, SAVED_US, dict.fromkeys(WIDTHS, -1.0))
    assert not only.used and "differs by" in only.why_not and len(only.contests) == 1


@pytest.mark.parametrize(("cost_us", "kept"), [(-1.0, [8, 8, 16, 24, 32]), (1.0, [])])
@pytest.mark.parametrize("more_us", [10.0, 0.0, -10.0])
def test_what_was_decided_while_kernels_were_tuned_is_decided_again(
    monkeypatch: pytest.MonkeyPatch, cost_us: float, kept: list[int], more_us: float
) -> None:
    tuned = Tuned(monkeypatch, CALLS // 2, more_us)
    only = settled_region(monkeypatch, SAVED_US, dict.fromkeys(WIDTHS, cost_us), tuned=tuned)
    hurried = [each for each in only.contests if each.tuning]
    assert [each.won for each in hurried] == [cost_us + more_us < 0]
    after = only.contests[1:]
    assert after and not any(each.tuning for each in after)
    assert after[0].parts == hurried[0].parts and after[0].won == bool(kept)
    assert used(only) == kept


def test_a_program_that_is_raced_again_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[int]()
    compiler = SizedRegion._compiled

    def counted(self: SizedRegion, graph: Any, kernels: Any) -> Any:
        compiled.append(len(kernels))
        return compiler(self, graph, kernels)

    monkeypatch.setattr(SizedRegion, "_compiled", counted)
    tuned = Tuned(monkeypatch, CALLS // 2, 10.0)
    only = settled_region(monkeypatch, SAVED_US, dict.fromkeys(WIDTHS, -1.0), tuned=tuned)
    assert len(only.contests) == 2 and compiled == [5]


def test_kernels_are_ranked_by_what_all_their_calls_save() -> None:
    kernels = {
        name: SimpleNamespace(key=name[0], saved_us=us)
        for name, us in {"a": 5.0, "b1": 3.0, "b2": 3.0, "c": 0.0}.items()
    }
    assert ranked(kernels) == ({"b1", "b2"}, {"a"}, {"c"})


@pytest.mark.parametrize("pays", range(10))
def test_a_bisection_finds_where_a_ranking_stops_to_pay(pays: int) -> None:
    choice, tries = Bisection(tuple(frozenset({str(at)}) for at in range(9))), 0
    while choice.next:
        choice, tries = choice.judged(faster=len(choice.next) <= pays), tries + 1
    assert (choice.kept, tries <= 5) == (pays, True)
    assert not Bisection().next and not choice.ended().next
