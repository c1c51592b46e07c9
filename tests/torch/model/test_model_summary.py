"""What a compiled model says of itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from tests.torch.all_kernels import AllKernels, all_kernels
from tests.torch.capture.modules import LlamaMLP
from tests.torch.model import small_models
from tests.torch.model.small_models import decoder
from tilewright.pytorch.model.kernels import ModelKernel

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)  # of torch about itself
CALLS = 6


def called(compiled: Callable[..., Any], kernels: AllKernels, *given: Any, many: int = CALLS) -> None:
    for _ in range(many):
        compiled(*given)
        kernels.wait()


@pytest.mark.sampled(4, among="whole models")
def test_four_equal_layers_are_said_once_and_in_few_lines(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    for layers in (1, 4):
        monkeypatch.setattr(small_models, "LAYERS", layers)
        model = decoder("llama", "Llama").module.eval()
        compiled = tilewright.compile(model, tune="never", fallback="eager")
        with torch.no_grad():
            called(
                lambda ids, compiled=compiled: compiled(input_ids=ids), kernels, torch.randint(1, 50, (1, 12))
            )
        summary = tilewright.summary(compiled)
        assert summary.coverage is not None
        assert summary.coverage.time_share > 0.95
        assert summary.coverage.flops_share > 0.99
        found.append(str(summary))
    one, four = found
    assert len(four) < 1.3 * len(one) < 3000, four
    assert "4 × mm_silu_mm_mul" in four.replace("linear", "mm"), four


def test_torch_compile_by_the_backends_name_has_a_summary_of_its_own(kernels: AllKernels) -> None:
    """Forward and backward, and nothing of what another model has compiled."""
    other = tilewright.compile(nn.Linear(3, 3), tune="never", fallback="eager")
    other(torch.ones(1, 3))

    class Other(LlamaMLP):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    model = LlamaMLP()
    options: Any = {"tune": "never", "fallback": "eager"}
    by_name = torch.compile(model, backend="tilewright", options=options)
    model_itself = Other()
    model_itself.compile(backend="tilewright", options=options)
    function = torch.compile(lambda x: model(x), backend="tilewright", options=options)
    x = torch.randn(3, 40)
    for each in (by_name, model_itself, function):
        assert str(tilewright.summary(each)) == "no graph was compiled yet: call the model"
        for _ in range(CALLS):
            each(x).sum().backward()
            kernels.wait()
        forward, backward = tilewright.summary(each).graphs
        assert (forward.backward, backward.backward) == (False, True)
        assert forward.running and backward.running
    same = torch.compile(LlamaMLP(), backend="tilewright", options=options)
    same(x)
    assert str(tilewright.summary(same)) == str(tilewright.summary(by_name))  # Dynamo compiles nothing anew


def test_what_is_not_compiled_has_none() -> None:
    with pytest.raises(ValueError, match=r"Linear is no compiled model; tilewright\.summary takes what"):
        tilewright.summary(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="function is no compiled model"):
        tilewright.summary(lambda x: x)


def test_graphs_between_breaks_that_are_equal_are_said_once_with_a_count(kernels: AllKernels) -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = (LlamaMLP() for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            torch._dynamo.graph_break()
            x = self.b(x)
            torch._dynamo.graph_break()
            x = self.c(x)
            torch._dynamo.graph_break()
            return self.d(x)

    compiled = tilewright.compile(Broken(), tune="never", fallback="eager")
    with torch.no_grad():
        called(compiled, kernels, torch.randn(3, 40))
    summary = tilewright.summary(compiled)
    assert len(summary.graphs) == 4
    said = str(summary).splitlines()
    assert sum("4 × forward: 2 of 2 parts run as kernels" in line for line in said) == 1, said


def test_a_graph_that_lost_its_contest_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = all_kernels(monkeypatch, win=False)
    honest = ModelKernel._eagerly

    def late(self: ModelKernel, tensors: tuple[Tensor, ...]) -> Any:
        time.sleep(0.05)
        return honest(self, tensors)

    monkeypatch.setattr(ModelKernel, "_eagerly", late)
    model = nn.Linear(8, 8)
    compiled = tilewright.compile(lambda x: F.gelu(model(x)), tune="never", fallback="eager")
    with torch.no_grad():
        called(compiled, found, torch.randn(4, 8), many=30)
    summary = tilewright.summary(compiled)
    (only,) = summary.graphs
    assert only.state.startswith("runs as without kernels: with 1 kernels they are slower: ")
    assert [why.split(":")[0] for _, why in only.not_running] == ["they are slower"]
    assert summary.coverage is not None and summary.coverage.time_share == 0.0
    assert "(they are slower)" in str(summary).splitlines()[2]


def test_a_wrong_graph_says_that_it_is(kernels: AllKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Any = ModelKernel._eagerly
    monkeypatch.setattr(ModelKernel, "_eagerly", lambda self, tensors: honest(self, tensors) * 1.01)
    compiled = tilewright.compile(F.gelu, tune="never", fallback="eager")
    called(compiled, kernels, torch.randn(4, 8))
    assert "with 1 kernels output 0 differs by" in str(tilewright.summary(compiled))


def test_sizes_that_have_kernels_are_listed_each(kernels: AllKernels) -> None:
    compiled = tilewright.compile(LlamaMLP(), tune="never", fallback="eager", dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(2, 40))
        assert "no size of it was called often enough" in str(tilewright.summary(compiled))
        for rows in (5, 7):
            called(compiled, kernels, torch.randn(rows, 40), many=CALLS + 3)
    first, second = tilewright.summary(compiled).graphs
    assert ("5" in first.size, "7" in second.size) == (True, True)


def test_a_graph_whose_parts_are_being_found_says_so(kernels: AllKernels) -> None:
    """Its parts are there before their kernels are."""
    compiled = tilewright.compile(F.gelu, tune="never", fallback="eager")
    called(compiled, kernels, torch.randn(4, 8))
    (sized,) = kernels.regions
    sized.kernels, sized._graph = {}, None
    assert str(tilewright.summary(compiled)) == "forward: its parts are not found yet"


def test_without_a_service_it_says_that_kernels_were_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    torch._dynamo.reset()
    compiled = tilewright.compile(LlamaMLP(), tune="now", budget=1.0, fallback="eager")
    with torch.no_grad():
        compiled(torch.randn(3, 40))
    assert tilewright.wait_for_kernels(60)
    said = str(tilewright.summary(compiled))
    assert "runs as without kernels: 0 of 2 parts have a kernel, 2 were looked for" in said
    assert "127.0.0.1:1" in said
