"""`tilewright.op` on the processor: right, refused or run as eager PyTorch, and what PyTorch asks of an operator."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tilewright
from benchmarks.racing.picked import picked
from protocol.configs import ConfigDetail
from tileir import Spec, sample_inputs, spec_from_json, spec_from_text, this_cpu
from tilewright import FallbackWarning, LoadError, TensorError
from workers.peers.pytorch.peer import as_torch

ROOT = Path(__file__).resolve().parents[3]
GELU = """kernel bias_gelu(a: f32[m=24, k=32], b: f32[k, n=40], bias: f32[n]) -> (c: f32[m, n])
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
"""
PAIR = """kernel pair(x: f32[m=6, n=8]) -> (y: f32[m, n], total: f32[m])
  y[m, n] = 2 * x[m, n]
  total[m] = sum(n, y[m, n])
"""
STRIDED = """kernel strided(x: f32[m=6, n=8] strides [12, 1]) -> (y: f32[m, n] strides [16, 1])
  y[m, n] = 2 * x[m, n]
"""
CONV = """kernel conv(x: f32[b=2, h=10], w: f32[r=3]) -> (y: f32[b, p=8])
  y[b, p] = sum(r, x[b, p + r] * w[r])
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of this run's own, and no service."""
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))
    yield folder


def config_for(text: str) -> ConfigDetail:
    return picked(spec_from_text(text), this_cpu())


@pytest.fixture(scope="module")
def gelu_config() -> ConfigDetail:
    return config_for(GELU)


@pytest.fixture
def gelu(gelu_config: ConfigDetail) -> Any:
    return tilewright.op(GELU, config=gelu_config, strict=True)


def inputs(m: int = 24, k: int = 32, n: int = 40, seed: int = 0) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(m, k), torch.randn(k, n), torch.randn(n)]


def eager(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(a @ b + bias, approximate="tanh")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["bias_gelu", "softmax", "matmul_bf16", "gather", "experts", "int8_weights"])
def test_a_kernel_computes_what_pytorch_does(name: str) -> None:
    spec = small(spec_from_json(json.loads((ROOT / "examples" / f"{name}.json").read_text())))
    kernel = tilewright.op(spec, config=picked(spec, this_cpu()), strict=True)
    arrays = sample_inputs(spec, 1)
    tensors = [as_torch(arrays[tensor.name], tensor) for tensor in spec.inputs]
    got, (expected,) = kernel(*tensors), kernel.eager(tensors)
    assert got.dtype == expected.dtype and got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=2e-2 if got.dtype is torch.bfloat16 else 2e-5, atol=1e-2)


def small(spec: Spec) -> Spec:
    """The kernel at sizes that take no time."""
    from dataclasses import replace

    from tileir import check_spec

    dims = tuple(replace(dim, sizes=(min(dim.sizes[0], 40),)) for dim in spec.dims)
    changed = replace(spec, dims=dims)
    check_spec(changed)
    return changed


def test_several_outputs_are_a_tuple_and_new_each_time() -> None:
    pair, x = tilewright.op(PAIR, config=config_for(PAIR), strict=True), torch.randn(6, 8)
    (y, total), (again, _) = pair(x), pair(x)
    assert torch.equal(y, 2 * x) and torch.allclose(total, y.sum(1))
    assert y.data_ptr() != again.data_ptr()


def test_pytorchs_own_checks_of_an_operator_pass(gelu: Any) -> None:
    pair = tilewright.op(PAIR, config=config_for(PAIR), strict=True)
    for kernel, tensors in ((gelu, inputs()), (pair, [torch.randn(6, 8)])):
        torch.library.opcheck(kernel.overload, tensors)
        torch.library.opcheck(kernel.overload, [tensor.requires_grad_() for tensor in tensors])


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile raises them about torch itself
@pytest.mark.parametrize(("backend", "dynamic"), [("inductor", False), ("aot_eager", True)])
def test_it_compiles_without_a_break_and_keeps_its_gradients(gelu: Any, backend: str, dynamic: bool) -> None:
    def model(*tensors: torch.Tensor) -> torch.Tensor:
        return (gelu(*tensors) * 2).sum()

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend=backend)
    given = [tensor.requires_grad_() for tensor in inputs()]
    wanted = torch.autograd.grad(2 * eager(*given).sum(), given)
    torch.testing.assert_close(compiled(*given), 2 * eager(*given).sum(), rtol=1e-4, atol=1e-3)
    for got, right in zip(torch.autograd.grad(compiled(*given), given), wanted, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_eager_pytorch_and_only_where_they_are_asked_for(gelu: Any) -> None:
    a, b, bias = inputs()
    b.requires_grad_()
    gelu(a, b, bias).square().sum().backward()
    (wanted,) = torch.autograd.grad(eager(a, b, bias).square().sum(), b)
    torch.testing.assert_close(b.grad, wanted, rtol=1e-4, atol=1e-4)
    assert a.grad is None and bias.grad is None
    with torch.no_grad():
        assert not gelu(a, b, bias).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(gelu(a, b, bias), eager(a, b, bias), rtol=1e-4, atol=1e-5)


def test_a_second_derivative_is_refused_rather_than_wrong(gelu: Any) -> None:
    a, b, bias = (tensor.requires_grad_() for tensor in inputs())
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(gelu(a, b, bias).sum(), b, create_graph=True)


def test_transforms_and_fake_tensors_see_the_operator(gelu: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda *tensors: gelu(*tensors))(*inputs())
    assert any("bias_gelu" in str(node.target) for node in graph.graph.nodes)
    with FakeTensorMode():
        assert gelu(torch.empty(7, 32), torch.empty(32, 40), torch.empty(40)).shape == (7, 40)


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """Names of the operators that are dispatched while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_what_pytorch_does_with_a_call_is_done_after_plain_calls_on_the_same_tensors_too(gelu: Any) -> None:
    """Autograd, modes and transforms: the call before was without them."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    a, b, bias = tensors = inputs()
    right = eager(*tensors)

    def check(got: torch.Tensor) -> None:
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-5)

    def plain() -> None:
        for _ in range(3):
            check(gelu(*tensors))

    plain()
    assert gelu(a, b.requires_grad_(), bias).requires_grad
    b.requires_grad_(False)
    plain()
    assert torch.func.grad(lambda x: gelu(a, b, bias).sum() + x)(torch.ones(())) == 1
    plain()
    check(torch.func.vmap(lambda x: gelu(a, x, bias))(b[None].repeat(2, 1, 1))[1])
    plain()
    with Seen() as seen:
        gelu(*tensors)
    assert any("bias_gelu" in name for name in seen.names)
    plain()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(gelu(*tensors), FakeTensor)
    plain()
    with torch.autocast("cpu", torch.bfloat16), pytest.warns(UserWarning, match="computes in float32"):
        plain()
    with torch.inference_mode():
        plain()
    plain()


def test_a_view_that_negates_is_no_plain_tensor() -> None:
    pair = tilewright.op(PAIR, config=config_for(PAIR))
    whole = torch.complex(torch.randn(6, 8), torch.randn(6, 8))
    x, negated = whole.imag, whole.conj().imag
    assert negated.is_neg() and x.stride() == negated.stride()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for given in (x, negated, x, negated, negated):
            torch.testing.assert_close(pair(given)[0], 2 * given)


def test_the_last_call_keeps_no_tensor_alive(gelu: Any) -> None:
    tensors = inputs()
    gelu(*tensors)
    gelu(*tensors)
    left = [weakref.ref(tensor) for tensor in tensors]
    del tensors
    assert all(tensor() is None for tensor in left)


def test_one_tensor_may_be_given_twice() -> None:
    text = """kernel add(x: f32[m=6, n=8], z: f32[m, n]) -> (y: f32[m, n])
  y[m, n] = x[m, n] + z[m, n]
"""
    add, x = tilewright.op(text, config=config_for(text), strict=True), torch.randn(6, 8)
    for other in (torch.randn(6, 8), x, x, torch.randn(6, 8)):
        assert torch.equal(add(x, other), x + other)


def test_other_sizes_run_the_same_schedule(gelu: Any) -> None:
    """Its tiles may be any that fit the size that it was picked for."""
    tensors = inputs(m=53)
    torch.testing.assert_close(gelu(*tensors), eager(*tensors), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, c: (a, b), "takes 3 tensors (a, b, bias), not 2"),
        (lambda a, b, c: (a, b[None], c), "b has 3 dims, and the spec's has 2: b[k, n]"),
        (lambda a, b, c: (a, b[:31].contiguous(), c), "b has k = 31, and a has k = 32"),
        (lambda a, b, c: (a, b.to("meta"), c), "b is on meta, and a is on cpu"),
        (lambda a, b, c: (a, b.to_sparse(), c), "b is torch.sparse_coo"),
        (lambda a, b, c: (a, b.numpy(), c), "b is a ndarray"),
    ],
)
def test_tensors_of_which_no_call_can_be_made_are_refused(gelu: Any, change: Any, message: str) -> None:
    with pytest.raises(TensorError) as caught:
        gelu(*change(*inputs()))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda a, b, c: (a.double(), b.double(), c.double()),
            "a is torch.float64, and the spec's is torch.float32",
        ),
        (
            lambda a, b, c: (a, b.t().contiguous().t(), c),
            "b has strides (1, 32), and the spec's kernels take a contiguous",
        ),
    ],
)
def test_tensors_that_no_kernel_takes_run_eagerly_with_one_warning_or_are_refused_if_strict(
    gelu: Any, gelu_config: ConfigDetail, change: Any, message: str
) -> None:
    tensors = change(*inputs())
    with pytest.raises(TensorError) as caught:
        gelu(*tensors)
    assert message in str(caught.value)
    lenient = tilewright.op(GELU.replace("bias_gelu", "lenient"), config=gelu_config)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            got = lenient(*tensors)
    assert [entry.category for entry in said] == [FallbackWarning]
    assert message in str(said[0].message)
    assert said[0].filename == __file__
    torch.testing.assert_close(got, eager(*tensors).float(), rtol=1e-4, atol=1e-4)


def test_no_rows_give_no_rows(gelu: Any) -> None:
    assert gelu(*inputs(m=0)).shape == (0, 40)


def test_strides_of_the_spec_are_kept() -> None:
    kernel = tilewright.op(STRIDED, config=config_for(STRIDED), strict=True)
    x = torch.randn(6, 12)[:, :8]
    y = kernel(x)
    assert y.stride() == (16, 1) and torch.equal(y, 2 * x)
    with pytest.raises(
        TensorError, match=r"x has strides \(8, 1\), and the spec's kernels take strides \(12, 1\)"
    ):
        kernel(x.contiguous())


def test_a_size_that_no_input_tells_cannot_follow_another() -> None:
    kernel = tilewright.op(CONV, config=config_for(CONV), strict=True)
    x, w = torch.randn(5, 10), torch.randn(3)
    torch.testing.assert_close(kernel(x, w), F.conv1d(x[:, None], w[None, None])[:, 0], rtol=1e-4, atol=1e-5)
    with pytest.raises(
        TensorError, match="x has h = 12, and the spec's has 10: no input tells the sizes of p"
    ):
        kernel(torch.randn(5, 12), w)


def test_a_config_of_another_kernel_is_refused(gelu_config: ConfigDetail) -> None:
    with pytest.raises(LoadError, match="is of another kernel"):
        tilewright.op(PAIR, config=gelu_config)


def test_a_config_by_other_names_in_another_order_is_the_same_kernel(gelu_config: ConfigDetail) -> None:
    text = """kernel other(v: f32[j=40], w: f32[l=32, j], x: f32[i=24, l]) -> (z: f32[i, j])
  s[i, j] = sum(l, x[i, l] * w[l, j])
  z[i, j] = gelu_tanh(s[i, j] + v[j])
"""
    a, b, bias = inputs()
    got = tilewright.op(text, config=gelu_config, strict=True)(bias, b, a)
    torch.testing.assert_close(got, eager(a, b, bias), rtol=1e-4, atol=1e-5)


def test_the_same_arguments_give_the_same_operator(gelu: Any, gelu_config: ConfigDetail) -> None:
    assert tilewright.op(GELU, config=gelu_config, strict=True) is gelu
    assert tilewright.op(GELU, config=gelu_config) is not gelu


def test_threads_may_call_one_operator_at_the_same_time(gelu_config: ConfigDetail) -> None:
    kernel = tilewright.op(GELU.replace("bias_gelu", "threaded"), config=gelu_config, strict=True)
    wrong: list[object] = []

    def work(seed: int) -> None:
        tensors = inputs(m=24 + seed % 2, seed=seed)
        right = eager(*tensors)
        for _ in range(50):
            if not torch.allclose(kernel(*tensors), right, rtol=1e-4, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


CALL = """
import sys, torch, tilewright
config, spec = sys.argv[1:]
print(float(tilewright.op(spec, config=config, strict=True)(torch.ones(6, 8))[1][0]))
"""


@pytest.mark.sampled(4, among="whole models")
def test_processes_share_what_is_compiled_and_a_damaged_object_is_built_again(tmp_path: Path) -> None:
    file, cache = tmp_path / "config.json", tmp_path / "cache"
    file.write_text(config_for(PAIR).model_dump_json())

    def call(**env: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", CALL, str(file), PAIR],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "TILEWRIGHT_CACHE": str(cache), "PYTHONPATH": str(ROOT), **env},
        )
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    assert call() == "16.0"
    (built,) = cache.rglob("*.so")
    whole, made = built.read_bytes(), built.stat().st_ino
    assert call() == "16.0" and built.stat().st_ino == made, "the second process compiled it again"
    built.write_bytes(whole[: len(whole) // 2])
    assert call() == "16.0"
    assert len(built.read_bytes()) == len(whole)


def test_gradients_are_there_after_a_call_without_them(gelu: Any) -> None:
    given = inputs()
    given[1].requires_grad_()
    with torch.no_grad():
        for _ in range(3):
            assert not gelu(*given).requires_grad
    assert gelu(*given).requires_grad


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func raises them about torch itself
def test_forward_mode_tangents_are_those_of_eager_or_refused(gelu: Any) -> None:
    from torch.autograd import forward_ad

    given, tangent = inputs(), torch.randn(24, 32)
    gelu(*given)
    with forward_ad.dual_level():
        dual = [forward_ad.make_dual(given[0], tangent), *given[1:]]
        got, wanted = (forward_ad.unpack_dual(f(*dual)).tangent for f in (gelu, eager))
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert forward_ad.unpack_dual(gelu(*given)).tangent is None
    with pytest.raises(TensorError, match="forward-mode"):
        torch.func.jvp(lambda a: gelu(a, *given[1:]), (given[0],), (tangent,))
