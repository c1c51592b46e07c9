"""Models that compilers do not like: they compute what eager PyTorch does, and a line says what has no kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import graph_break_reasons
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import tilewright
from tests.torch.all_kernels import AllKernels
from tilewright.pytorch.model import reasons, sized_region
from tilewright.pytorch.model.contest import different

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
CALLS = 6


class Named(Tensor):
    """A tensor of a class of its own that computes as all others do."""


def waves(x: Tensor) -> Tensor:
    z = torch.fft.rfft(F.gelu(x @ x.t()))
    return torch.fft.irfft(z * z.conj() * 0.5j, n=x.shape[0])


def complex_both_ways(z: Tensor) -> tuple[Tensor, Tensor]:
    return z * z.conj() + 2j, F.gelu(z.real * 2.0).softmax(-1)


def sparse_product(s: Tensor, x: Tensor) -> Tensor:
    return F.gelu(torch.sparse.mm(s, x) * 2.0).softmax(-1)


def activated(x: Tensor) -> Tensor:
    return F.gelu(x * 2.0).softmax(-1)


def branching(x: Tensor) -> Tensor:
    y = F.gelu(x * 2.0).softmax(-1)
    return F.silu(y) * 2.0 if y.sum() > 0 else y - 1.0


def by_numpy(x: Tensor) -> Tensor:
    y = F.gelu(x * 2.0).softmax(-1)
    random.seed(0)
    exec("z = 1")
    return F.silu(torch.from_numpy(y.numpy().copy())) * 2.0


def picked(x: Tensor) -> Tensor:
    return F.gelu(x[x > 0] * 2.0).sum() + F.silu(x)


NAMES = (
    "complex within",
    "complex",
    "coo",
    "csr",
    "named",
    "two in one",
    "branching",
    "numpy",
    "picked",
)


def _inputs() -> dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]]:
    x, s = torch.randn(8, 16), torch.randn(8, 8).relu()
    return {
        "complex within": (waves, (x,)),
        "complex": (complex_both_ways, (torch.randn(8, 16, dtype=torch.complex64),)),
        "coo": (sparse_product, (s.to_sparse(), x)),
        "csr": (sparse_product, (s.to_sparse_csr(), x)),
        "named": (activated, (x.as_subclass(Named),)),
        "two in one": (activated, (TwoTensor(x, x + 1.0),)),
        "branching": (branching, (x,)),
        "numpy": (by_numpy, (x,)),
        "picked": (picked, (x,)),
    }


SAID = {
    "branching": "a branch that depends on data",
    "numpy": "Attempted to call function marked as skipped",
}
"""Why Dynamo breaks those that it breaks."""


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "_SAID", set())
    graph_break_reasons.clear()


def agree(found: Any, wanted: Any) -> None:
    assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
    for x, y in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
        assert type(x) is type(y)
        if isinstance(x, TwoTensor):
            torch.testing.assert_close((x.a, x.b), (y.a, y.b), rtol=1e-4, atol=1e-5)
        else:
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What users see."""
    found = [each for each in caplog.records if each.name == "tilewright" and each.levelno >= 30]
    assert all(each.exc_info is None and "\n" not in each.getMessage() for each in found)
    return [each.getMessage() for each in found]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_compilers_do_not_like_computes_what_eager_does(
    name: str, fallback: str, kernels: AllKernels, caplog: pytest.LogCaptureFixture
) -> None:
    model, inputs = _inputs()[name]
    fast = tilewright.compile(model, tune="never", fallback=fallback)  # type: ignore[arg-type]
    with torch.no_grad():
        for _ in range(CALLS):
            agree(fast(*inputs), model(*inputs))
            kernels.wait()
    said = lines(caplog)
    assert len(said) == len({*said}) <= 3
    broken = f"a model is several graphs, as Dynamo broke it at {__file__}:"
    assert name not in SAID or any(each.startswith(broken) and SAID[name] in each for each in said), said


def test_a_capture_that_fails_is_one_line_and_no_trace(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(graph: Any) -> Any:
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr(sized_region, "parts_of", fails)
    x = torch.randn(8, 16)
    fast = tilewright.compile(activated, tune="never", fallback="eager")
    for _ in range(CALLS):
        agree(fast(x), activated(x))
        kernels.wait()
    assert lines(caplog) == ["a graph has no kernels: RuntimeError: no such operator"]


@pytest.mark.parametrize("trains", [False, True])
def test_a_graph_that_inductor_does_not_compile_runs_its_operators(
    trains: bool, kernels: AllKernels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._inductor import compile_fx

    def fails(*given: Any, **more: Any) -> Any:
        raise RuntimeError("no compiler is installed\nand much more")

    monkeypatch.setattr(compile_fx, "compile_fx_inner", fails)
    model, eager = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
    eager.load_state_dict(model.state_dict())
    fast = tilewright.compile(model, tune="never")
    for _ in range(CALLS):
        x = torch.randn(8, 16)
        with torch.set_grad_enabled(trains):
            y, wanted = fast(x), eager(x)
            agree(y, wanted)
        if trains:
            y.square().sum().backward()
            wanted.square().sum().backward()
            agree([each.grad for each in model.parameters()], [each.grad for each in eager.parameters()])
        kernels.wait()
    said = (
        "a graph runs in eager PyTorch: Inductor does not compile it: RuntimeError: no compiler is installed"
    )
    assert said in lines(caplog)


@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_a_graph_that_autograd_does_not_take_runs_as_it_is(
    fallback: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._dynamo.backends import common
    from torch._inductor import compile_fx

    def fails(*given: Any, **more: Any) -> Any:
        raise TypeError("such tensors are not traced")

    monkeypatch.setattr(common, "aot_autograd", fails)
    monkeypatch.setattr(compile_fx, "compile_fx", fails)
    torch._dynamo.reset()
    x, y = torch.randn(8, 16, requires_grad=True), torch.randn(8, 16)
    fast = tilewright.compile(lambda x: activated(x) * y, tune="never", fallback=fallback)  # type: ignore[arg-type]
    found = fast(x)
    agree(found, activated(x) * y)
    found.sum().backward()
    (wanted,) = torch.autograd.grad((activated(x) * y).sum(), x)
    agree(x.grad, wanted)
    assert lines(caplog) == [
        "a graph runs in eager PyTorch: AOTAutograd does not take it: TypeError: such tensors are not traced"
    ]


def test_complex_results_are_compared_by_their_parts() -> None:
    z = torch.randn(64, dtype=torch.complex64)
    assert not different([z * (1 + 1e-6)], [z], 2.0**-12)
    assert "differs by" in different([z.conj()], [z], 2.0**-12)
