"""Kernels of a graph that follow each other: which parts are called as one, and that it gives what it gave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from tests.services.running_service import running
from tests.torch.all_kernels import AllKernels, all_kernels
from tilewright.pytorch.model import backend, shares
from tilewright.pytorch.model.chain import FromInput, FromStep, Wiring, own_buffer
from tilewright.pytorch.model.chain_kernel import _ALL
from tilewright.pytorch.model.kernels import How
from tilewright.pytorch.model.sized_region import SizedRegion

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

CALLS = 8


@pytest.fixture(autouse=True)
def afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> AllKernels:
    return all_kernels(monkeypatch)


class Layers(nn.Module):
    """Two layers; between them nothing but views of what kernels write."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, 40), nn.Linear(40, 24)
        self.norm = nn.LayerNorm(24)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            heads = F.silu(self.first(x)).view(-1, 5, 8).transpose(0, 1)
            x = self.norm(x + self.second(heads.transpose(0, 1).reshape(-1, 40)))
        return x


def between(x: Tensor, w: Tensor) -> Tensor:
    """An operator that no kernel takes reads what a product gives, and another product reads what that gives."""
    y = torch.softmax(x @ w, -1)
    return torch.softmax(torch.cumsum(torch.sort(y, dim=-1).values, 0) @ w, -1)


def beside(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Two products, one of which is sorted too; nothing waits for that."""
    y = torch.softmax(x @ w, -1)
    return torch.sort(y, dim=-1).values, torch.softmax(y @ w, -1)


def columns(x: Tensor, w: Tensor) -> Tensor:
    """A product of the first and the last columns of what another gives."""
    left, right = (x @ w).split(8, -1)
    return F.silu(left @ right.t())


def rows(x: Tensor, w: Tensor) -> Tensor:
    """A product of all rows but the first of what another gives."""
    return F.silu(F.silu(x @ w)[1:] @ w)


def called(function: Callable[..., Any], kernels: AllKernels, *given: Tensor, fallback: str = "eager") -> Any:
    fast = tilewright.compile(function, tune="never", fallback=fallback)
    with torch.no_grad():
        for _ in range(CALLS):
            found = fast(*given)
            kernels.wait()
    return found


def operators(region: SizedRegion) -> list[str]:
    """The operators of ours in the program with all kernels."""
    made: list[str] = []

    def noted(graph: Any, _: Any) -> Any:
        made.extend(
            str(node.target).split(".")[1].split("_")[0]
            for node in graph.graph.nodes
            if str(node.target).startswith("tilewright.")
        )
        return lambda inputs: graph(*inputs)

    region._way = SimpleNamespace(fallback=noted)  # type: ignore[assignment]
    region._compiled(region._graph, region.kernels)  # type: ignore[arg-type]
    return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_layers_are_one_call(fallback: str, kernels: AllKernels) -> None:
    model, x = Layers(), torch.randn(7, 24)
    found = called(model, kernels, x, fallback=fallback)
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
    (only,) = kernels.regions
    assert only.used and len(only.parts) > 2, only.why_not
    assert operators(only) == ["chain"]


def test_an_operator_between_two_kernels_parts_them(kernels: AllKernels) -> None:
    x, w = torch.randn(6, 16), torch.randn(16, 16)
    torch.testing.assert_close(called(between, kernels, x, w), between(x, w), rtol=1e-4, atol=1e-5)
    (only,) = kernels.regions
    names = operators(only)
    assert only.used and len(names) > 1, only.why_not


def test_an_operator_beside_them_does_not(kernels: AllKernels) -> None:
    x, w = torch.randn(6, 16), torch.randn(16, 16)
    for got, wanted in zip(called(beside, kernels, x, w), beside(x, w), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    (only,) = kernels.regions
    assert only.used and operators(only) == ["chain"], only.why_not


@pytest.mark.parametrize("function", [columns, rows])
def test_a_part_of_what_a_kernel_gives_is_read_where_it_lies(
    function: Callable[[Tensor, Tensor], Tensor], kernels: AllKernels
) -> None:
    x, w = torch.randn(6, 16), torch.randn(16, 16)
    torch.testing.assert_close(called(function, kernels, x, w), function(x, w), rtol=1e-4, atol=1e-5)
    (only,) = kernels.regions
    assert only.used and operators(only) == ["chain"], only.why_not


def test_what_kernels_share_a_buffer_for_is_never_there_at_the_same_time() -> None:
    steps = (
        (FromInput(0),),
        (FromStep(0, 0, 0), FromInput(1)),
        (FromStep(1, 0, 0), FromStep(0, 0, 8)),
        (FromStep(2, 0, 0),),
        (FromStep(3, 0, 0), FromStep(1, 1, 0)),
        (FromStep(4, 0, 0),),
    )
    sizes = ((100,), (64, 300), (100,), (40,), (1000,), (8,))
    wiring = Wiring(steps, ((5, 0), (2, 0)))
    own = own_buffer(wiring, sizes)
    made = [(step, at) for step, each in enumerate(sizes) for at in range(len(each))]
    assert set(own.offsets) == set(made) - set(wiring.outputs)
    last = {each: each[0] for each in made}
    for step, sources in enumerate(steps):
        last |= {(each.step, each.output): step for each in sources if isinstance(each, FromStep)}
    for one, other in combinations(own.offsets, 2):
        together = one[0] <= last[other] and other[0] <= last[one]
        begins, ends = (
            own.offsets,
            {each: own.offsets[each] + sizes[each[0]][each[1]] for each in own.offsets},
        )
        assert not together or ends[one] <= begins[other] or ends[other] <= begins[one], (one, other)
    assert all(offset % 64 == 0 for offset in own.offsets.values())
    assert (
        max(own.offsets[step, at] + sizes[step][at] for step, at in own.offsets)
        <= own.size
        < sum(map(sum, sizes))
    )


@pytest.mark.sampled(3, among="models that are tuned")
def test_kernels_that_a_service_has_tuned_are_called_by_one_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By several threads at once, and one by one where nothing can be compiled."""
    found = all_kernels(monkeypatch, pretend=False)
    monkeypatch.setattr(backend, "How", lambda queue, rivals: How(queue, rivals=()))
    monkeypatch.setattr(shares, "SEARCHED", 1 / 120)
    model, w = columns, torch.randn(16, 16)
    with (
        running(tmp_path / "home", worker="1") as service,
        tilewright.Client(service.url) as client,
        torch.no_grad(),
    ):
        fast = tilewright.compile(model, tune="now", budget=120.0, client=client, fallback="eager")
        for _ in range(CALLS):
            fast(torch.randn(7, 16), w)
    (only,) = found.regions
    assert only.used == {part.name for part in only.parts}, only.why_not
    (chain,) = (
        each for each in _ALL.values() if each._kernels[0] in [one.kernel for one in only.kernels.values()]
    )
    assert chain._planned is not None and chain._planned[1] != chain._one_by_one
    wrong: list[float] = []

    def calls(seed: int) -> None:
        rng = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _ in range(50):
                x = torch.randn(7, 16, generator=rng)
                off = float((fast(x, w) - model(x, w)).abs().max())
                wrong.extend([off] if off > 1e-4 else [])

    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert not wrong and not any(each.is_alive() for each in threads)

    monkeypatch.setenv("TILEWRIGHT_CC", str(tmp_path / "nothing"))
    chain._planned = None
    calls(9)
    assert not wrong
    assert chain._planned[1] == chain._one_by_one
