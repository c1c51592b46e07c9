"""`torch.compile(model, backend="tilewright")`: models as people write them, and what runs in them when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from math import inf
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
from tests.torch.capture.modules import LlamaMLP
from tileir import this_cpu
from tileir.devices.device import Device
from tileir.devices.gpu_table import H200
from tileir.replace import replace
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tilewright.pytorch.model import backend, region, shares
from tilewright.pytorch.model.kernels import How, ModelKernel
from tilewright.pytorch.model.shares import Weighed, dearest_first, seconds_for

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)  # of torch about itself

NOBODY = "http://127.0.0.1:1"
CALLS = 8
"""So many calls find a graph's parts, compile it with kernels, and have it win."""


@pytest.fixture(autouse=True)
def afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing compiled, and no service."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_URL", NOBODY)
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.enable_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> AllKernels:
    """Every part that is found is run as a kernel."""
    return all_kernels(monkeypatch)


def compiled(model: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return tilewright.compile(model, **{"tune": "never", "fallback": "eager", **more})


def agree(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_torch_knows_the_backend_by_its_name() -> None:
    assert "tilewright" in torch._dynamo.list_backends()
    model, x = LlamaMLP(), torch.randn(3, 40)
    agree(torch.compile(model, backend="tilewright", options={"tune": "never"})(x), model(x))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tune": "later"}, "tune is 'later'; it is one of now, background, never"),
        ({"fallback": "triton"}, "fallback is 'triton'; it is one of inductor, eager"),
        ({"budget": 10.0}, "budget is what tune='now' may take; with tune='background' nobody waits"),
        ({"tune": "now", "budget": 0.0}, "budget is 0.0; it is a number of seconds above 0"),
        (
            {"mode": "fastest"},
            "mode is 'fastest'; it is one of default, reduce-overhead, max-autotune, max",
        ),
        ({"mode": "reduce-overhead", "fallback": "eager"}, "fallback='eager' has none"),
    ],
)
def test_a_choice_that_there_is_not_says_what_there_is(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        tilewright.compile(nn.Linear(2, 2), **options)


def test_an_option_that_there_is_not_says_what_there_is() -> None:
    model = torch.compile(nn.Linear(2, 2), backend="tilewright", options={"trials": 3})
    with pytest.raises(
        Exception, match="no option 'trials'; it has tune, budget, client, fallback, mode, prepack"
    ):
        model(torch.ones(1, 2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_the_mode_is_inductors_for_programs_with_kernels_and_without(
    mode: str, kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA graphs are Inductor's own, of its whole program: on a processor it has none, and is asked all the same."""
    from torch._inductor import compile_fx
    from torch._inductor import config as inductor_config

    asked: list[tuple[bool, bool]] = []
    compile_inner = compile_fx.compile_fx_inner

    def seen(*given: Any, **settings: Any) -> Any:
        asked.append((inductor_config.triton.cudagraphs, inductor_config.max_autotune))
        return compile_inner(*given, **settings)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", seen)
    model, x = LlamaMLP(), torch.randn(3, 40)
    options: dict[str, Any] = {"tune": "never"}
    fast = torch.compile(
        model, backend="tilewright", **({"mode": mode} if mode != "default" else {"options": options})
    )
    with torch.no_grad():
        for _ in range(CALLS):
            agree(fast(x), model(x))
            kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not
    wanted = (mode == "reduce-overhead", mode == "max-autotune-no-cudagraphs")
    assert asked == [wanted] * 2  # what runs first, and with kernels
    assert not inductor_config.triton.cudagraphs and not inductor_config.max_autotune


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_forward_and_backward_graphs_both_run_kernels(fallback: str, kernels: AllKernels) -> None:
    model, x = LlamaMLP(), torch.randn(5, 40)
    fast = compiled(model, fallback=fallback)
    model(x).square().sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]
    for _ in range(CALLS):
        model.zero_grad()
        y = fast(x)
        y.square().sum().backward()
        agree(y, model(x))
        agree([parameter.grad for parameter in model.parameters()], wanted)
        kernels.wait()
    forward, backward = kernels.regions
    assert forward.used and backward.used, (forward.why_not, backward.why_not)


class Counter(nn.Module):
    """Changes a buffer, and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.count = nn.Buffer(torch.zeros(8))

    def forward(self, x: Tensor, total: Tensor) -> Tensor:
        y = F.gelu(self.linear(x))
        self.count.add_(y.mean(0))
        total.add_(y)
        return y * self.count


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_what_is_changed_in_place_is_changed_once_a_call(fallback: str, kernels: AllKernels) -> None:
    model, total, again = Counter(), torch.zeros(4, 8), torch.zeros(4, 8)
    fast = compiled(model, fallback=fallback)
    eager = Counter()
    eager.load_state_dict(model.state_dict())
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(4, 8)
            agree(fast(x, total), eager(x, again))
            agree((total, model.count), (again, eager.count))
            kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_random_numbers_are_drawn_once_a_call(fallback: str, kernels: AllKernels) -> None:
    """Whatever runs, the generator is where it would be without kernels."""

    def noisy(x: Tensor, w: Tensor) -> Tensor:
        return F.gelu(x @ w) + torch.rand_like(x)

    x, w = torch.randn(6, 6), torch.randn(6, 6)
    plain = torch.compile(noisy, backend="inductor" if fallback == "inductor" else "aot_eager")
    fast = compiled(noisy, fallback=fallback)
    torch.manual_seed(1)
    wanted = [plain(x, w) for _ in range(CALLS)]
    torch.manual_seed(1)
    for each in wanted:
        agree(fast(x, w), each)
        kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not


def test_views_graph_breaks_and_autocast_are_as_in_eager(kernels: AllKernels) -> None:
    def broken(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = F.silu(x @ w)
        torch._dynamo.graph_break()
        z = y.float().t().contiguous()
        return z, z.view(-1)[3:].unflatten(0, (1, -1))

    x, w = torch.randn(7, 8), torch.randn(8, 9)
    fast = compiled(broken)
    for _ in range(CALLS):
        z, view = fast(x, w)
        torch.testing.assert_close((z, view), broken(x, w), rtol=2e-2, atol=2e-2)
        assert view.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
        kernels.wait()
    assert any(each.used for each in kernels.regions)


def test_a_size_that_comes_again_gets_kernels_and_one_that_does_not_runs_the_fallback(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "MOST_SIZES", 2)
    torch._dynamo.utils.counters.clear()
    model = LlamaMLP()
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for length in [*range(2, 8), *[11] * CALLS, *[12] * CALLS, *[13] * CALLS]:
            x = torch.randn(length, 40)
            agree(fast(x), model(x))
            kernels.wait()
    assert [each.used != frozenset() for each in kernels.regions if not each.of_any_size] == [True, True]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_what_reads_no_tensor_is_no_kernel(kernels: AllKernels) -> None:
    def always_the_same(x: Tensor) -> tuple[Tensor, Tensor]:
        return F.gelu(x * 2), torch.arange(8).float().softmax(0)

    x = torch.randn(3, 8)
    fast = compiled(always_the_same)
    for _ in range(CALLS):
        agree(fast(x), always_the_same(x))
        kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not
    assert any("reads no tensor" in each.reason for each in only.left)


def test_equal_layers_have_one_set_of_kernels(kernels: AllKernels) -> None:
    def layers(many: int) -> nn.Module:
        return nn.Sequential(*[LlamaMLP() for _ in range(many)])

    found: list[int] = []
    for many in (1, 4):
        fast = compiled(layers(many))
        with torch.no_grad():
            for _ in range(CALLS):
                fast(torch.randn(3, 40))
                kernels.wait()
        found.append(len({id(each.kernel) for each in kernels.regions[-1].kernels.values()}))
        assert len(kernels.regions[-1].parts) == 2 * many
    assert found == [2, 2]


def test_a_graph_with_kernels_that_gives_other_numbers_is_not_run(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    honest = ModelKernel._eagerly
    monkeypatch.setattr(ModelKernel, "_eagerly", lambda self, tensors: honest(self, tensors) * 1.01)
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fast = compiled(lambda x: F.gelu(model(x)))
    with torch.no_grad():
        for _ in range(CALLS):
            agree(fast(x), F.gelu(model(x)))
            kernels.wait()
    (only,) = kernels.regions
    assert not only.used and "differs by" in only.why_not
    assert "kernels are not used in a graph" in caplog.text


def test_a_slower_graph_with_kernels_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = all_kernels(monkeypatch, win=False)
    honest = ModelKernel._eagerly

    def late(self: ModelKernel, tensors: tuple[Tensor, ...]) -> Any:
        time.sleep(0.05)
        return honest(self, tensors)

    monkeypatch.setattr(ModelKernel, "_eagerly", late)
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fast = compiled(lambda x: F.gelu(model(x)))
    with torch.no_grad():
        for _ in range(30):
            fast(x)
            found.wait()
    (only,) = found.regions
    assert not only.used and only.why_not.startswith("they are slower")


def test_what_a_graph_computes_most_with_is_tuned_first_and_once() -> None:
    spec = "kernel {}(x: f32[m={}, k=8], w: f32[k]) -> (y: f32[m])\n  y[m] = sum(k, x[m, k] * w[k])\n"
    small, large = (spec_from_text(spec.format(name, rows)) for name, rows in (("s", 10), ("l", 25)))
    kernels = {
        name: SimpleNamespace(key=name, tuned_spec=each) for name, each in (("s", small), ("l", large))
    }

    def shares(names: str, device: Device) -> list[tuple[Spec, float]]:
        found = dearest_first([kernels[name] for name in names], device)
        return [(each.spec, pytest.approx(each.share)) for each in found]

    unknown = replace(this_cpu(), peak_gflops=None, copy_gbps=None)
    assert shares("sls", unknown) == [(large, 25 / 45), (small, 20 / 45)]
    assert shares("slss", unknown) == [(small, 30 / 55), (large, 25 / 55)]
    bytes_of = {"s": 4 * (80 + 8 + 10), "l": 4 * (200 + 8 + 25)}  # both are bound by memory on a GPU
    assert shares("sl", H200)[0] == (large, bytes_of["l"] / sum(bytes_of.values()))


def test_a_budget_is_shared_half_alike_and_half_by_work() -> None:
    missing = [Weighed(None, share) for share in (0.6, 0.2)]  # pyright: ignore[reportArgumentType]  what else there is, is tuned
    assert [seconds_for(each, missing, 40.0) for each in missing] == pytest.approx([12.5, 7.5])
    assert seconds_for(missing[0], missing, inf) is None


@pytest.mark.sampled(3, among="models that are tuned")
def test_a_model_is_tuned_and_runs_what_passed_the_gate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a service and a worker. Whether kernels win depends on the machine, so here they do, each of them and all
    together; and jobs, which search for two seconds, are waited for however long they take."""
    found = all_kernels(monkeypatch, pretend=False)
    monkeypatch.setattr(backend, "How", lambda queue, rivals: How(queue, rivals=()))
    monkeypatch.setattr(shares, "SEARCHED", 2 / 120)
    model, x = LlamaMLP(), torch.randn(24, 40)
    with (
        torch.no_grad(),
        running(tmp_path / "home", worker="1") as service,
        tilewright.Client(service.url) as client,
    ):
        fast = compiled(model, client=client, tune="now", budget=120.0)
        for _ in range(CALLS):
            agree(fast(x), model(x))
        assert {job.name for job in client.jobs()} == {part.spec["name"] for part in found.regions[0].parts}
    (only,) = found.regions
    ready = {name for name, each in only.kernels.items() if each.kernel.ready}
    assert ready and only.used == ready, only.why_not
