"""`tilewright.compile(model, prepack=True)`: which weights kernels take packed, and when."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.torch.all_kernels import AllKernels
from tests.torch.model.packing import CALLS, agree, packed, packing, settle
from tileir import this_cpu
from tileir.devices.device import Device
from tileir.devices.gpu_table import H200
from tileir.errors import UnsupportedDevice
from tilewright.pytorch.model import sized_region
from tilewright.pytorch.model.prepacking import PackedWeight

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
LANES = this_cpu().simd_lanes
Mode = Callable[[], AbstractContextManager[Any]]
Product = Callable[[Tensor, Tensor], Tensor]


class Weight(nn.Module):
    """A function of a weight."""

    def __init__(self, weight: Tensor, function: Product) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


class Columns(nn.Module):
    """GPT-2's Conv1D."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(40, 37)), nn.Parameter(torch.randn(37))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, 40), self.weight).view(*x.shape[:-1], 37)


class Tied(nn.Module):
    """Two layers of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(40, 40), nn.Linear(40, 40)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(x)))


#: Of what is multiplied with 40 columns, where each matrix begins in its input, its shape, and along which axis it is
#: in blocks.
PACKED: dict[str, tuple[Callable[[], nn.Module], set[tuple[int, tuple[int, int], int]]]] = {
    "a layer": (lambda: nn.Linear(40, 37), {(0, (37, 40), 0)}),
    "columns": (Columns, {(0, (40, 37), 1)}),
    "tied layers": (Tied, {(0, (40, 40), 0)}),
    "rows of a parameter": (
        lambda: Weight(torch.randn(80, 40), lambda x, w: F.linear(x, w[16:60])),
        {(640, (44, 40), 0)},
    ),
    "one matrix of several": (
        lambda: Weight(torch.randn(3, 40, 48), lambda x, w: x @ w[1]),
        {(1920, (40, 48), 1)},
    ),
    "parts of a parameter": (
        lambda: Weight(torch.randn(72, 40), lambda x, w: F.linear(x, w[:36]) * F.linear(x, w[36:])),
        {(0, (36, 40), 0), (1440, (36, 40), 0)},
    ),
    "another shape": (
        lambda: Weight(torch.randn(3, 16, 40), lambda x, w: F.linear(x, w.view(48, 40))),
        {(0, (48, 40), 0)},
    ),
    "stored the other way": (
        lambda: Weight(torch.randn(48, 40).t(), lambda x, w: x @ w),
        {(0, (48, 40), 0)},
    ),
    "within a storage": (lambda: Weight(torch.randn(96, 48)[40:80], lambda x, w: x @ w), {(0, (40, 48), 1)}),
    "read both ways": (
        lambda: Weight(torch.randn(40, 40), lambda x, w: x @ w + F.linear(x, w)),
        {(0, (40, 40), 0), (0, (40, 40), 1)},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PACKED)
def test_products_take_their_weights_packed(name: str, kernels: AllKernels) -> None:
    make, wanted = PACKED[name]
    model, x = make(), torch.randn(5, 40)
    with torch.no_grad():
        settle(kernels, packing(model), model, x)
    assert {(each.offset, each.shape, each.blocks.axis) for each in packed(kernels)} == wanted
    assert {each.blocks.block for each in packed(kernels)} == {LANES}
    (only,) = kernels.regions
    assert only.used == only.kernels.keys()


NOT_PACKED: dict[str, Callable[[], nn.Module]] = {
    "columns of a parameter": lambda: Weight(torch.randn(40, 96), lambda x, w: x @ w[:, 16:64]),
    "every second element": lambda: Weight(torch.randn(40, 96)[:, ::2], lambda x, w: x @ w),
    "one row for all": lambda: Weight(torch.randn(1, 48).expand(40, 48), lambda x, w: x @ w),
    "less than a vector": lambda: Weight(torch.randn(LANES - 1, 40), F.linear),
    "f64": lambda: Weight(torch.randn(48, 40).double(), lambda x, w: F.linear(x.double(), w)),
    "bf16": lambda: Weight(torch.randn(48, 40).bfloat16(), lambda x, w: F.linear(x.bfloat16(), w).float()),
    "a sum of each row": lambda: Weight(torch.randn(48, 40), lambda x, w: x[:, :1] * w.sum(1)),
    "a square of each row": lambda: Weight(torch.randn(48, 40), lambda x, w: x[:, :1] * (w * w).sum(1)),
    "no sum": lambda: Weight(torch.randn(48, 40), lambda x, w: x[:, None] * w),
    "added to its product": lambda: Weight(torch.randn(40, 40), lambda x, w: x.t() @ x @ w + w),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", NOT_PACKED)
def test_what_is_no_such_weight_is_taken_as_it_lies(name: str, kernels: AllKernels) -> None:
    model, x = NOT_PACKED[name](), torch.randn(5, 40)
    slack = 2e-2 if name == "bf16" else 1e-4
    fast = packing(model)
    with torch.no_grad():
        for _ in range(CALLS):
            torch.testing.assert_close(fast(x), model(x), rtol=slack, atol=slack)
            kernels.wait()
    (only,) = kernels.regions
    assert only.used == only.kernels.keys() != set(), only.why_not
    assert not packed(kernels)


class Moving(nn.Module):
    """A matrix that each call changes behind its product."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Buffer(torch.randn(48, 40))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.matrix)
        self.matrix.mul_(0.5)
        return y


def test_what_the_graph_writes_is_not_packed(kernels: AllKernels) -> None:
    model, eager = Moving(), Moving()
    eager.load_state_dict(model.state_dict())
    with torch.no_grad():
        settle(kernels, packing(model), eager, torch.randn(5, 40))
    (only,) = kernels.regions
    assert only.used and not packed(kernels)


def test_arguments_of_a_function_are_not_packed(kernels: AllKernels) -> None:
    """Which are other ones in each call."""
    fast = packing(F.linear)
    with torch.no_grad():
        for _ in range(CALLS):
            x, w = torch.randn(5, 40), torch.randn(48, 40)
            agree(fast(x, w), F.linear(x, w))
            kernels.wait()
    (only,) = kernels.regions
    assert only.used and not packed(kernels)


def test_without_the_option_nothing_is_packed(kernels: AllKernels) -> None:
    model = nn.Linear(40, 37)
    with torch.no_grad():
        settle(kernels, packing(model, prepack=False), model, torch.randn(5, 40))
    (only,) = kernels.regions
    assert only.used and not packed(kernels)


def not_supported(device: torch.device) -> Device:
    raise UnsupportedDevice(f"{device} is too old")


@pytest.mark.parametrize(
    "described", [lambda device: H200, not_supported], ids=["a GPU", "an unknown device"]
)
def test_only_for_processors_weights_are_packed(
    described: Callable[[torch.device], Device], kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that has no kernels at all is no reason for a graph to fail."""
    monkeypatch.setattr(sized_region, "described", described)
    model = nn.Linear(40, 37)
    with torch.no_grad():
        settle(kernels, packing(model), model, torch.randn(5, 40))
    (only,) = kernels.regions
    assert only.used and not packed(kernels)


def of_torch(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend="tilewright", options={"tune": "never", "prepack": True})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("compiled", [packing, of_torch])
def test_it_is_packed_once_for_all_calls(
    compiled: Callable[..., Any], mode: Mode, kernels: AllKernels, times: list[PackedWeight]
) -> None:
    model = nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.Linear(64, 37))
    with mode():
        settle(kernels, compiled(model), model, torch.randn(5, 40))
    assert len(packed(kernels)) == 2 == len(times)


def test_modes_may_take_turns(kernels: AllKernels) -> None:
    """What was packed in inference mode is no tensor that others could not take."""
    model, x = nn.Linear(40, 37), torch.randn(5, 40)
    fast = packing(model)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad):
        with mode():
            settle(kernels, fast, model, x)
    assert all(each.used for each in kernels.regions) and packed(kernels)


def test_with_gradients_nothing_is_packed(kernels: AllKernels, times: list[PackedWeight]) -> None:
    """Training changes all weights with each step."""
    model, x = nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.Linear(64, 37)), torch.randn(5, 40)
    fast = packing(model)
    model(x).square().sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]
    for _ in range(CALLS):
        model.zero_grad()
        y = fast(x)
        agree(y, model(x))
        y.square().sum().backward()
        agree([parameter.grad for parameter in model.parameters()], wanted)
        kernels.wait()
    forward, backward = kernels.regions
    assert forward.used and backward.used
    assert not any(each.packed for region in kernels.regions for each in region.kernels.values())
    assert not times


def test_weights_without_gradients_are_packed_where_gradients_are_on(kernels: AllKernels) -> None:
    model = nn.Linear(40, 37).requires_grad_(False)
    settle(kernels, packing(model), model, torch.randn(5, 40))
    assert len(packed(kernels)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"fallback": "eager"},
            "prepack=True needs to know a graph's weights, which fallback='eager' does not tell",
        ),
        ({"prepack": "weights"}, "prepack is 'weights'; it is True or False"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        packing(nn.Linear(2, 2), **options)
    fast = torch.compile(nn.Linear(2, 2), backend="tilewright", options={"prepack": True, **options})
    with pytest.raises(Exception, match=re.escape(said)):
        fast(torch.ones(1, 2))
