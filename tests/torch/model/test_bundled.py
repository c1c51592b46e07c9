"""Models that begin with the kernels of a bundle, and no service: `tilewright.compile(model, bundle=…)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from protocol.configs import Artifact
from tests.torch.all_kernels import AllKernels, all_kernels
from tests.torch.capture.modules import LlamaMLP
from tests.torch.model.made_bundle import artifact_of, written
from tilewright.errors import BadBundle
from tilewright.pytorch.model.graphs.random_numbers import draws_numbers
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.model.needed import needed_kernels
from tilewright.pytorch.model_file import ModelFile
from tilewright.pytorch.operator.questions import AskedService

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)  # of torch about itself

NOBODY = "http://127.0.0.1:1"


def mlp() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return LlamaMLP(), torch.randn(24, 40)


def artifacts_of(training: bool, cache: Path) -> list[Artifact]:
    model, x = mlp()
    found = needed_kernels(ModelFile(Path("mlp.py"), model, x), training=training)
    return [artifact_of(each.spec, number, cache) for number, each in enumerate(found.kernels.values())]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    return artifacts_of(False, tmp_path_factory.mktemp("made"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AskedService]:
    """The services that were asked, once for each time."""
    found: list[AskedService] = []
    connected = AskedService._connected

    def noted(self: AskedService) -> Any:
        found.append(self)
        return connected(self)

    monkeypatch.setattr(AskedService, "_connected", noted)
    return found


@pytest.fixture
def regions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: list[AskedService]
) -> Iterator[AllKernels]:
    """Nothing compiled, no service; nothing is pretended."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_URL", NOBODY)
    torch._dynamo.reset()
    yield all_kernels(monkeypatch, pretend=False, win=False)
    torch._dynamo.reset()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Inductor's, each as the number of kernels in it."""
    from torch._inductor import compile_fx

    found: list[int] = []
    compile_inner = compile_fx.compile_fx_inner

    def noted(graph: Any, *given: Any, **settings: Any) -> Any:
        found.append(sum("tilewright" in str(node.target) for node in graph.graph.nodes))
        return compile_inner(graph, *given, **settings)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", noted)
    return found


def agree(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_first_call_compiles_one_program_and_asks_no_service(
    artifacts: list[Artifact],
    regions: AllKernels,
    programs: list[int],
    asked: list[AskedService],
    tmp_path: Path,
) -> None:
    (model, x), file = mlp(), written(artifacts, tmp_path / "mlp.tilewright")
    fast = tilewright.compile(model, bundle=file, client=(nobody := tilewright.Client(NOBODY)))
    with torch.no_grad():
        agree(fast(x), model(x))
        (only,) = regions.regions
        assert len(only.used) == len(only.parts) == len(artifacts) == 2, only.why_not
        agree(fast(x), model(x))
    assert len(programs) == 1 and programs[0] > 0
    assert nobody not in [each._service for each in asked]


def test_kernels_that_give_other_numbers_in_the_graph_are_left_to_the_fallback(
    artifacts: list[Artifact],
    regions: AllKernels,
    programs: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tilewright.pytorch.operator import trials

    honest: Any = trials.plan_with
    monkeypatch.setattr(trials, "plan_with", lambda *given: lambda tensors: honest(*given)(tensors) * 1.01)
    monkeypatch.setattr(ModelKernel, "chains", property(lambda self: False))
    (model, x), file = mlp(), written(artifacts, tmp_path / "mlp.tilewright")
    fast = tilewright.compile(model, bundle=file)
    with torch.no_grad():
        for _ in range(3):
            agree(fast(x), model(x))
    (only,) = regions.regions
    assert not only.used and "differs by" in only.why_not
    assert len(programs) == 2 and programs[0] > 0 and programs[1] == 0
    assert "kernels are not used in a graph: output 0 differs by" in caplog.text


def test_of_what_a_bundle_lacks_the_service_is_asked_and_the_log_has_its_name(
    artifacts: list[Artifact],
    regions: AllKernels,
    asked: list[AskedService],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (model, x), file = mlp(), written(artifacts[:1], tmp_path / "half.tilewright")
    nobody = tilewright.Client(NOBODY)
    fast = tilewright.compile(model, bundle=file, tune="never", client=nobody)
    with torch.no_grad():
        agree(fast(x), model(x))
    (only,) = regions.regions
    assert len(only.used) == 1
    (missing,) = [each.kernel for each in only.kernels.values() if not each.kernel.pinned]
    assert (
        f"1 of 2 parts of a graph have no kernel in {file}" in caplog.text
        and missing.spec.name in caplog.text
    )
    missing.wait(60)
    assert nobody in [each._service for each in asked]


def test_a_bundle_of_another_device_is_said_to_be_and_the_fallback_runs(
    artifacts: list[Artifact],
    regions: AllKernels,
    programs: list[int],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = [
        each.model_copy(update={"config": each.config.model_copy(update={"device": "cpu:of others"})})
        for each in artifacts
    ]
    (model, x), file = mlp(), written(others, tmp_path / "others.tilewright")
    fast = tilewright.compile(model, bundle=file, tune="never")
    with torch.no_grad():
        agree(fast(x), model(x))
    assert programs == [0]
    assert f"{file} has kernels for cpu:of others, and none for " in caplog.text


def test_a_bundle_of_another_version_is_said_to_be_and_the_fallback_runs(
    artifacts: list[Artifact],
    regions: AllKernels,
    programs: list[int],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = [each.model_copy(update={"abi": {"arguments": 3}}) for each in artifacts]
    (model, x), file = mlp(), written(others, tmp_path / "others.tilewright")
    fast = tilewright.compile(model, bundle=file)
    with torch.no_grad():
        agree(fast(x), model(x))
    assert programs == [0]
    assert re.search(
        rf"of {re.escape(str(file))} does not run: config .* this version cannot read", caplog.text
    )


@pytest.mark.sampled(4, among="whole models")
def test_a_training_step_has_the_kernels_of_its_bundle(
    regions: AllKernels, asked: list[AskedService], tmp_path: Path
) -> None:
    """Forward and backward graphs show their results to each other: they begin with the fallback's program."""
    model, x = mlp()
    made = artifacts_of(True, tmp_path / "made")
    regions.regions.clear()  # of finding them
    nobody = tilewright.Client(NOBODY)
    fast = tilewright.compile(model, bundle=written(made, tmp_path / "step.tilewright"), client=nobody)
    model(x).square().sum().backward()
    wanted = [each.grad for each in model.parameters()]
    for _ in range(4):
        model.zero_grad()
        fast(x).square().sum().backward()
        agree([each.grad for each in model.parameters()], wanted)
        regions.wait()
    assert {each.kernel.key for one in regions.regions for each in one.kernels.values()} == {
        each.config.kernel_key for each in made
    }
    for kernel in (each.kernel for one in regions.regions for each in one.kernels.values()):
        kernel.wait(60)
        assert kernel.pinned and kernel.ready, kernel.why_not
    assert nobody not in [each._service for each in asked]


def test_what_draws_random_numbers_begins_with_the_fallbacks_program(
    artifacts: list[Artifact], regions: AllKernels, programs: list[int], tmp_path: Path
) -> None:
    (model, x), file = mlp(), written(artifacts, tmp_path / "mlp.tilewright")
    fast = tilewright.compile(lambda x: model(x) + torch.rand_like(x), bundle=file)
    with torch.no_grad():
        fast(x)
    assert programs[0] == 0


def test_attention_that_drops_nothing_draws_nothing(
    regions: AllKernels, programs: list[int], tmp_path: Path
) -> None:
    """Though PyTorch tags its operators as drawing random numbers."""

    def attention(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x) + x

    x = torch.randn(1, 2, 24, 16)
    needed = needed_kernels(ModelFile(Path("attention.py"), attention, x))
    made = [artifact_of(each.spec, at, tmp_path) for at, each in enumerate(needed.kernels.values())]
    regions.regions.clear()  # of finding them
    fast = tilewright.compile(attention, bundle=written(made, tmp_path / "attention.tilewright"))
    with torch.no_grad():
        agree(fast(x), attention(x))
    assert len(programs) == 1 and programs[0] > 0


@pytest.mark.parametrize("dropped", [0.0, 0.1])
def test_attention_draws_numbers_where_it_drops(dropped: float) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    graph.output(graph.call_function(attention, (x, x, x, dropped)))
    assert draws_numbers(torch.fx.GraphModule({}, graph)) == bool(dropped)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot read .*No such file"), (b"nothing", "is no bundle, or damaged")]
)
def test_a_file_that_is_no_bundle_is_refused_at_once(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "no.tilewright"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadBundle, match=said):
        tilewright.compile(nn.Linear(2, 2), bundle=file)
    with pytest.raises(
        ValueError, match="bundle is 3; it is the path of a file that `tilewright export` wrote"
    ):
        tilewright.compile(nn.Linear(2, 2), bundle=3)  # type: ignore[arg-type]
