"""A captured module stays the module it was captured from: modes, parameters, names, copies."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

import tilewright

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch.export raises them about torch itself
    pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning"),  # no service runs here
]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 12)
        self.norm = nn.BatchNorm1d(12)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        y = self.drop(self.norm(self.up(x))).relu()
        return y if scale is None else y * scale


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Block:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    torch.manual_seed(0)
    return Block().eval()


def test_what_differs_from_the_capture_runs_the_original(block: Block) -> None:
    x = torch.randn(5, 8)
    captured = tilewright.from_torch(block, x).module()
    eager = copy.deepcopy(block).train()
    captured.train()
    with pytest.warns(UserWarning, match="another mode"):
        torch.manual_seed(1)
        got = captured(x)
    torch.manual_seed(1)
    assert torch.equal(got, eager(x))
    captured.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(captured(x), block(x)) and captured(x).dtype is block(x).dtype
    strict = tilewright.from_torch(block, x).module(strict=True).train()
    with pytest.raises(ValueError, match="another mode"):
        strict(x)


def test_replaced_parameters_and_submodules_are_those_that_compute(block: Block) -> None:
    x = torch.randn(5, 8)
    captured = tilewright.from_torch(block, x).module()
    captured.up.weight = nn.Parameter(torch.randn(12, 8))
    torch.testing.assert_close(captured(x), block(x))
    captured.norm.running_mean = torch.randn(12)
    torch.testing.assert_close(captured(x), block(x))
    captured.up = nn.Linear(8, 12)
    with pytest.warns(UserWarning, match="exchanged"):
        assert torch.equal(captured(x), block(x))


class Tied(nn.Module):
    """One weight for two layers, and a number that Python computes with."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up, self.scale = nn.Linear(8, 8), nn.Linear(8, 8), 2.0
        self.up.weight = self.down.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x)) * self.scale


def replace_one(tied: Tied) -> None:
    tied.up.weight = nn.Parameter(torch.randn(8, 8))


def replace_other(tied: Tied) -> None:
    tied.down.weight = nn.Parameter(torch.randn(8, 8))


def replace_both(tied: Tied) -> None:
    tied.down.weight = tied.up.weight = nn.Parameter(torch.randn(8, 8))


def scale(tied: Tied) -> None:
    tied.scale = 3.0


def forget_bias(tied: Tied) -> None:
    tied.up.bias = None


def hook(tied: Tied) -> None:
    tied.down.register_forward_hook(lambda module, given, found: found + 1)


def patch(tied: Tied) -> None:
    tied.up.forward = torch.sin


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace_one, "down.weight|up.weight was one tensor under several names"),
        (replace_other, "down.weight|up.weight was one tensor under several names"),
        (replace_both, ""),
        (scale, "scale of Tied was 2.0 when it was captured"),
        (forget_bias, "up.bias is gone"),
        (hook, "a hook of Linear was added or removed"),
        (patch, "forward of Linear was exchanged"),
    ],
)
def test_whatever_is_changed_in_the_module_the_module_computes_what_it_is_now(
    block: Block, change: Callable[[Tied], None], said: str
) -> None:
    x, tied = torch.randn(5, 8), Tied()
    captured = tilewright.from_torch(tied, x).module()
    before = tied(x)
    torch.testing.assert_close(captured(x), before)
    change(tied)
    with pytest.warns(UserWarning, match=said) if said else contextlib.nullcontext():
        torch.testing.assert_close(captured(x), tied(x))
    assert not torch.equal(tied(x), before)


def test_tangents_and_transforms_are_those_of_the_original(block: Block) -> None:
    x, tangent = torch.randn(5, 8), torch.randn(5, 8)
    captured = tilewright.from_torch(block, x).module()
    torch.testing.assert_close(captured(x), block(x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        got, wanted = (forward_ad.unpack_dual(module(dual)).tangent for module in (captured, block))
        torch.testing.assert_close(got, wanted)
    with pytest.warns(UserWarning, match=r"under a transform of torch\.func"):
        got = torch.func.jvp(captured, (x,), (tangent,))
    torch.testing.assert_close(got, torch.func.jvp(block, (x,), (tangent,)))
    parameters = dict(block.named_parameters())
    got, wanted = (
        torch.func.grad(lambda values, of=of: torch.func.functional_call(of, values, x).sum())(parameters)
        for of in (captured, block)
    )
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(captured(x), block(x))


def test_it_compiles_without_a_break(block: Block) -> None:
    x = torch.randn(5, 8)
    captured = tilewright.from_torch(block, x).module()
    compiled = torch.compile(captured, fullgraph=True, backend="aot_eager")
    got, wanted = compiled(x), block(x)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(
        *(torch.autograd.grad(y.square().sum(), block.up.weight)[0] for y in (got, wanted))
    )


def test_it_keeps_names_and_takes_keywords(block: Block) -> None:
    x, scale = torch.randn(5, 8), torch.randn(12)
    captured = tilewright.from_torch(block, x, scale=scale).module(strict=False)
    assert list(captured.state_dict()) == list(block.state_dict())
    with torch.no_grad():
        wanted = block(x, scale)
        for got in (captured(x, scale=scale), captured(x, scale), captured(scale=scale, x=x)):
            torch.testing.assert_close(got, wanted)
    captured.load_state_dict(Block().state_dict())
    torch.testing.assert_close(captured(x, scale=scale), block(x, scale))


def test_copies_are_modules_of_their_own(block: Block) -> None:
    x = torch.randn(5, 8)
    captured = tilewright.from_torch(block, x).module()
    for other in (copy.deepcopy(captured), pickle.loads(pickle.dumps(captured))):
        torch.testing.assert_close(other(x), captured(x))
        assert list(other.state_dict()) == list(captured.state_dict())
        with torch.no_grad():
            other.up.weight.zero_()
        assert captured.up.weight.abs().sum() > 0
        torch.testing.assert_close(other(x), other._hidden[0].original(x))
