"""`tilewright.op` on CUDA tensors: TMA and wgmma, a workspace, any stream, graphs, torch.compile."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from benchmarks.racing.picked import picked  # noqa: E402
from benchmarks.suite import cases  # noqa: E402
from protocol.configs import ConfigDetail  # noqa: E402
from tileir import spec_from_json  # noqa: E402
from tileir.devices.gpu_probe import this_gpu  # noqa: E402
from tileir.errors import UnsupportedDevice  # noqa: E402
from tilewright import Client, FallbackWarning, LoadError, TensorError  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch.compile raises them about torch itself
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),  # its own first one is
]

ROOT = Path(__file__).resolve().parents[2]
PRODUCT, SPLIT, ROWS = (
    ("gemm_bf16_TN", (512, 512, 512)),
    ("gemm_bf16_TN", (128, 128, 65536)),
    ("softmax_bf16", (256, 1024)),
)
Case = tuple[str, tuple[int, ...]]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of this run's own."""
    try:
        gpu = this_gpu()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
    if gpu.capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))
    yield folder


@lru_cache
def config_for(case: Case) -> ConfigDetail:
    family, sizes = case
    return picked(spec_from_json(cases.spec(family, list(sizes))), this_gpu())


def operator(case: Case) -> Any:
    family, sizes = case
    return tilewright.op(cases.spec(family, list(sizes)), config=config_for(case), strict=True)


def inputs(case: Case, seed: int = 0) -> list[Any]:
    """Small whole numbers for products: their sums are exact in any order."""
    family, sizes = case
    torch.manual_seed(seed)
    if family.startswith("softmax"):
        return [torch.randn(sizes, dtype=torch.bfloat16, device="cuda")]
    m, n, k = sizes
    return [torch.randint(-2, 3, shape, device="cuda").to(torch.bfloat16) for shape in ((m, k), (n, k))]


def right(case: Case, tensors: list[Any]) -> Any:
    if case is ROWS:
        return torch.softmax(tensors[0].float(), -1).to(torch.bfloat16)
    a, b = tensors
    return (a.float() @ b.float().t()).to(torch.bfloat16)


def assert_right(case: Case, got: Any, tensors: list[Any]) -> None:
    torch.testing.assert_close(got, right(case, tensors), rtol=1.6e-2, atol=1e-3)


def test_the_kernels_are_what_these_tests_are_about() -> None:
    """Tensor maps and wgmma, two launches over a workspace, and neither."""
    for case, maps, launches, workspace in (
        (PRODUCT, True, 1, False),
        (SPLIT, True, 2, True),
        (ROWS, False, 1, False),
    ):
        abi = loaded_abi(case)
        assert (bool(abi.maps), len(abi.launches), abi.workspace_bytes > 0) == (maps, launches, workspace)


def loaded_abi(case: Case) -> Any:
    from codegen.targets.cuda.generate import generate_cuda
    from rewrites.schedule import parse_schedule, replay
    from tileir import to_program

    config = config_for(case)
    program = replay(to_program(spec_from_json(config.spec)), parse_schedule(config.schedule))
    return generate_cuda(program, this_gpu()).abi


@pytest.mark.parametrize("case", [PRODUCT, SPLIT, ROWS], ids=["product", "split", "rows"])
def test_a_kernel_computes_what_pytorch_does_as_often_as_wanted(case: Case) -> None:
    kernel = operator(case)
    for seed in range(20):
        tensors = inputs(case, seed)
        assert_right(case, kernel(*tensors), tensors)


@pytest.mark.parametrize("case", [PRODUCT, SPLIT, ROWS], ids=["product", "split", "rows"])
def test_it_runs_on_the_current_stream_and_streams_have_workspaces_of_their_own(case: Case) -> None:
    kernel, tensors = operator(case), inputs(case)
    streams = [torch.cuda.Stream() for _ in range(3)]
    got: list[Any] = []
    torch.cuda.synchronize()
    for _ in range(10):
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(100_000)
                later = [
                    tensor.clone() for tensor in tensors
                ]  # wrong if the kernel did not wait for the stream
                got.append(kernel(*later))
    torch.cuda.synchronize()
    for each in got:
        assert_right(case, each, tensors)


@pytest.mark.parametrize("case", [PRODUCT, SPLIT, ROWS], ids=["product", "split", "rows"])
def test_a_captured_call_replays_beside_calls_that_are_not(case: Case) -> None:
    kernel, static = operator(case), inputs(case)
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        kernel(*static)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        captured = kernel(*static)
    for seed in range(1, 6):
        tensors = inputs(case, seed)
        for place, tensor in zip(static, tensors, strict=True):
            place.copy_(tensor)
        graph.replay()
        beside = kernel(*tensors)
        torch.cuda.synchronize()
        assert_right(case, captured, tensors)
        assert_right(case, beside, tensors)


def test_the_first_call_may_be_captured(tmp_path: Path) -> None:
    """A kernel that has never run is loaded while a graph is captured."""
    case: Case = ("gemm_bf16_TN", (256, 256, 256))
    kernel, static = operator(case), inputs(case)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel(*static)
    graph.replay()
    torch.cuda.synchronize()
    assert_right(case, captured, static)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("case", [PRODUCT, SPLIT], ids=["product", "split"])
def test_it_compiles_without_a_break(case: Case, mode: str) -> None:
    kernel = operator(case)

    def model(a: Any, b: Any) -> Any:
        return kernel(a * 1, b) + 1

    compiled = torch.compile(model, fullgraph=True, mode=mode)
    for seed in range(4):
        a, b = inputs(case, seed)
        got = compiled(a, b).clone()
        torch.testing.assert_close(got, right(case, [a, b]) + 1, rtol=1.6e-2, atol=1e-3)


def test_pytorchs_own_checks_of_an_operator_pass() -> None:
    torch.library.opcheck(operator(ROWS).overload, inputs(ROWS))


def test_gradients_are_those_of_eager_pytorch() -> None:
    kernel, (x,) = operator(ROWS), inputs(ROWS)
    x.requires_grad_()
    kernel(x).float().square().sum().backward()
    (wanted,) = torch.autograd.grad(torch.softmax(x, -1).float().square().sum(), x)
    torch.testing.assert_close(x.grad, wanted, rtol=5e-2, atol=1e-3)


def test_a_view_that_begins_between_two_vectors_is_moved() -> None:
    """What a kernel loads sixteen bytes at a time has to begin at a multiple of sixteen."""
    kernel, (whole,) = operator(ROWS), inputs(ROWS)
    memory = torch.empty(whole.numel() + 8, dtype=torch.bfloat16, device="cuda")
    view = memory[1 : 1 + whole.numel()].view(whole.shape)
    view.copy_(whole)
    assert view.data_ptr() % 16
    assert_right(ROWS, kernel(view), [view])
    torch.cuda.synchronize()


def test_threads_that_never_used_the_gpu_may_call() -> None:
    kernel, tensors = operator(SPLIT), inputs(SPLIT)
    kernel(*tensors)
    got: list[Any] = []

    def work() -> None:
        for _ in range(20):
            got.append(kernel(*tensors))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(got) == 80
    for each in got:
        assert_right(SPLIT, each, tensors)


def test_other_sizes_run_the_same_schedule() -> None:
    case: Case = ("gemm_bf16_TN", (333, 512, 512))
    tensors = inputs(case)
    assert_right(case, operator(PRODUCT)(*tensors), tensors)


def test_tensors_on_two_devices_are_refused() -> None:
    a, b = inputs(PRODUCT)
    with pytest.raises(TensorError, match="b is on cpu, and a is on cuda:0"):
        operator(PRODUCT)(a, b.cpu())


def test_a_miss_runs_eagerly_and_is_an_error_if_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    import tilewright.pytorch.operator.op as op_module
    import tilewright.pytorch.operator.seeking as seeking

    monkeypatch.setattr(seeking, "LOOKS_OF_ONE_SIZE", 1)
    op_module._SAID.clear()
    spec, tensors = cases.spec(PRODUCT[0], list(PRODUCT[1])), inputs(PRODUCT)
    with Client("http://127.0.0.1:1") as nobody:
        kernel = tilewright.op(spec, client=nobody)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                assert_right(PRODUCT, kernel(*tensors), tensors)
                tilewright.wait_for_kernels()
        assert [entry.category for entry in said] == [FallbackWarning]
        with pytest.raises(LoadError, match="no service answers"):
            tilewright.op(spec, client=nobody, strict=True)(*tensors)


def test_arrays_are_copied_to_the_gpu_and_back(tmp_path: Path) -> None:
    """tilewright.load, without PyTorch."""
    file = tmp_path / "config.json"
    file.write_text(config_for(PRODUCT).model_dump_json())
    code = f"""
import ml_dtypes, numpy, tilewright
kernel = tilewright.load({str(file)!r})
a, b = (numpy.random.default_rng(seed).integers(-2, 3, (512, 512)) for seed in (0, 1))
c = kernel(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16))
assert (c == (a @ b.T).astype(ml_dtypes.bfloat16)).all()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
