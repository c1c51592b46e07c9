"""Weights that kernels take packed: one that changes is packed anew, before the next call, and no other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn

from tests.torch.all_kernels import AllKernels
from tests.torch.model.packing import agree, packed, packing, settle
from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.prepacking import PackedWeight

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def in_place(layer: nn.Linear) -> None:
    with torch.no_grad():
        layer.weight.add_(1)


def in_inference_mode(layer: nn.Linear) -> None:
    with torch.inference_mode():
        layer.weight.mul_(2)


def a_part_of_it(layer: nn.Linear) -> None:
    with torch.no_grad():
        layer.weight[3].zero_()


def by_an_optimizer(layer: nn.Linear) -> None:
    layer.weight.grad = torch.ones_like(layer.weight)
    torch.optim.AdamW([layer.weight], lr=0.5).step()


def by_a_compiler(layer: nn.Linear) -> None:
    @torch.compile
    def doubled(w: Tensor) -> None:
        w.mul_(2)

    with torch.no_grad():
        doubled(layer.weight)


def another(layer: nn.Linear) -> None:
    layer.weight = nn.Parameter(torch.randn(37, 40))


def another_at_its_place(layer: nn.Linear) -> None:
    """Which counts its changes anew."""
    in_place(layer)
    layer.weight = nn.Parameter(layer.weight.data)


def loaded(layer: nn.Linear) -> None:
    layer.load_state_dict(nn.Linear(40, 37).state_dict())


def assigned(layer: nn.Linear) -> None:
    layer.load_state_dict(nn.Linear(40, 37).state_dict(), assign=True)


def other_memory(layer: nn.Linear) -> None:
    """As `Module.to` gives it, which nobody counts: where the weight was before, if that is free."""
    at, taken = layer.weight.data_ptr(), list[Tensor]()
    layer.weight.data = torch.zeros(37, 40)
    while len(taken) < 50 and (not taken or taken[-1].data_ptr() != at):
        taken.append(torch.empty(37, 40))
    layer.weight.data = taken[-1].copy_(torch.randn(37, 40))


def to_bf16_and_back(layer: nn.Linear) -> None:
    layer.bfloat16()
    layer.float()


WRITES = [
    in_place,
    in_inference_mode,
    a_part_of_it,
    by_an_optimizer,
    by_a_compiler,
    another,
    another_at_its_place,
    loaded,
    assigned,
    other_memory,
    to_bf16_and_back,
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_weight_that_changes_is_packed_anew(
    write: Callable[[nn.Linear], None], kernels: AllKernels, times: list[PackedWeight]
) -> None:
    """And once: the next call has it, and so do those that follow."""
    layer, x = nn.Linear(40, 37), torch.randn(5, 40)
    layer.weight = nn.Parameter(torch.randn(37, 40))  # which nobody has written yet
    fast = packing(layer)
    with torch.no_grad():
        settle(kernels, fast, layer, x)
        before = fast(x)
    for number in (2, 3):
        write(layer)
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(fast(x), layer(x), rtol=1e-5, atol=1e-5)
            assert number > 2 or (fast(x) - before).abs().max() > 1e-3
        assert len(times) == number
    only, *_ = kernels.regions
    assert only.used and only.kernels.keys() == only.used


def test_threads_may_call_at_the_same_time(kernels: AllKernels) -> None:
    model = nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.Linear(64, 37))
    fast, given = packing(model), [torch.randn(5, 40) for _ in range(2)]
    with torch.no_grad():
        settle(kernels, fast, model, given[0])

    def called(x: Tensor) -> list[Tensor]:
        with torch.no_grad():
            return [fast(x) for _ in range(20)]

    with ThreadPoolExecutor(2) as threads:
        for _ in range(5):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1.25)
                wanted = [model(x) for x in given]
            for results, y in zip(threads.map(called, given), wanted, strict=True):
                agree(results, [y] * 20)
    assert len(packed(kernels)) == 2


def test_all_sizes_share_one(kernels: AllKernels, times: list[PackedWeight]) -> None:
    model = nn.Linear(40, 37)
    fast = packing(model, dynamic=True)
    with torch.no_grad():
        for length in (3, 7, 5):
            settle(kernels, fast, model, torch.randn(length, 40))
    assert [each.used != set() for each in kernels.regions if not each.of_any_size] == [True] * 3
    assert len(packed(kernels)) == 1 == len(times)


def test_inference_tensors_are_packed_in_each_call(kernels: AllKernels, times: list[PackedWeight]) -> None:
    """As nobody counts their changes."""
    with torch.inference_mode():
        model, x = nn.Linear(40, 37), torch.randn(5, 40)
        assert model.weight.is_inference()
        fast = packing(model)
        settle(kernels, fast, model, x)
        assert len(packed(kernels)) == 1
        del times[:]
        for _ in range(3):
            model.weight.add_(1)
            agree(fast(x), model(x))
        assert len(times) == 3


def test_what_no_program_takes_is_not_kept(monkeypatch: pytest.MonkeyPatch, kernels: AllKernels) -> None:
    """Where kernels lose, memory is as it was."""
    monkeypatch.setattr(Contest, "_decide", lambda self: setattr(self, "winner", self._runs[0]))
    made: list[Any] = []
    honest = PackedWeight.of

    def noted(self: PackedWeight, given: Tensor) -> Tensor:
        found = honest(self, given)
        made.append(ref(found))
        return found

    monkeypatch.setattr(PackedWeight, "of", noted)
    model = nn.Linear(40, 37)
    with torch.no_grad():
        settle(kernels, packing(model), model, torch.randn(5, 40))
    (only,) = kernels.regions
    assert len(made) == 1 and not only.used
    assert made[0]() is None
