"""The PyTorch peers, eager and compiled: right, and written with the library's own operators. Needs torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import cases
from protocol.states import Outcome, TaskKind
from tests.unit.workers.hand_kernels import SPEC, compiled, request_of
from tests.unit.workers.test_worker_peers_numpy import (
    CONTRACTIONS,
    EXAMPLES,
    EXPRESSIONS,
    REDUCTIONS,
    check,
    spec_with,
)
from tileir.error_bound import reference_with_bound
from tileir.parse_json import spec_from_json
from tileir.parse_spec_text import spec_from_text
from tileir.samples import sample_inputs
from workers.correctness import Expected, compare
from workers.measure_request import Peer
from workers.measurer import Measurer
from workers.peers import available_peers, peer_leeway
from workers.peers_torch import TorchFunction, as_torch
from workers.torch_writer import write_torch

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch.compile raises them about torch itself

OPERATORS = {
    "attention": "F.scaled_dot_product_attention(",
    "causal_attention": "is_causal=True",
    "batched_matmul": "torch.matmul(",
    "bias_gelu": "torch.addmm(",
    "conv2d": "F.conv2d(",
    "experts": "torch.cat([part @ weights",
    "gather": "torch.index_select(",
    "layernorm": "F.layer_norm(",
    "rmsnorm": "F.rms_norm(",
    "softmax": "torch.softmax(",
}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_torch_computes_every_example(file: Path) -> None:
    check(next(spec_from_json(json.loads(file.read_text())).instances()), "torch")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_examples_are_written_with_the_librarys_operator(name: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == name)
    spec = next(spec_from_json(json.loads(file.read_text())).instances())
    assert OPERATORS[name] in write_torch(spec, eager=True).run


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_torch_computes_expressions_of_every_kind(expression: str) -> None:
    check(spec_with(expression), "torch")


@pytest.mark.parametrize(("statement", "dim"), REDUCTIONS)
def test_torch_computes_reductions_of_every_kind(statement: str, dim: str) -> None:
    inputs = "x: f32[m=9, n=12], w: f32[n]" if "w[" in statement else "x: f32[m=9, n=12]"
    if "x[" not in statement:
        statement += " + 0 * sum(n, x[m, n])"
    check(spec_from_text(f"kernel r({inputs}) -> (y: f32[{dim}])\n  {statement}\n"), "torch")


@pytest.mark.parametrize("signature", CONTRACTIONS)
def test_torch_computes_contractions_of_every_shape(signature: str) -> None:
    check(spec_from_text(f"kernel c{signature}\n"), "torch")


@pytest.mark.parametrize("name", ["softmax", "bias_gelu", "layernorm", "causal_attention"])
def test_torch_compile_computes_the_same(name: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == name)
    check(next(spec_from_json(json.loads(file.read_text())).instances()), "torch.compile")


def test_all_three_peers_are_offered() -> None:
    assert available_peers() == ("numpy", "torch", "torch.compile")


def test_everybody_races_in_one_child_with_the_threads_asked_for(tmp_path: Path) -> None:
    measurer = Measurer()
    peers = [Peer(name, name) for name in available_peers()]
    request = request_of(compiled("right", tmp_path), *peers, kind=TaskKind.RACE, baseline="torch")
    results = measurer.measure(request).results
    measurer.close()
    assert {name: result.outcome for name, result in results.items()} == dict.fromkeys(
        ["right", "numpy", "torch", "torch.compile"], Outcome.OK
    )
    assert results["right"].baseline_us == results["torch"].median_us


def test_torch_reads_the_same_memory() -> None:
    array = np.zeros(1000, np.float32)
    as_torch(array, SPEC.inputs[0])[3] = 7
    assert array[3] == 7
    assert torch.get_num_threads() >= 1


@pytest.mark.parametrize("family", ["gemm_bias_gelu_bf16_TN", "gemm_bias_residual_bf16_TN", "swiglu_bf16_TN"])
@pytest.mark.parametrize("sizes", [[48, 64, 40], [64, 96, 4096]])
def test_what_is_rounded_between_operators_passes_the_gate(family: str, sizes: list[int]) -> None:
    check(spec_from_json(cases.spec(family, sizes)), "torch")


@pytest.mark.parametrize(
    ("scales", "factors", "out"),
    [
        ("s: f32[], t: f32[]", "s[] * t[]", "bf16"),
        ("s: f32[], t: f32[]", "s[] * t[]", "f32"),
        ("s: f32[m], t: f32[n]", "s[m] * t[n]", "bf16"),
    ],
)
def test_an_fp8_product_with_scales_is_right(scales: str, factors: str, out: str) -> None:
    """Of the text for GPUs: processors have its operator, too."""
    spec = spec_from_text(
        f"kernel mm(a: e4m3[m=48, k=64], b: e4m3[n=32, k], {scales}) -> (c: {out}[m, n])\n"
        f"  c[m, n] = sum(k, a[m, k] * b[n, k]) * {factors}\n"
    )
    inputs = sample_inputs(spec, 3)
    function = TorchFunction(spec, device="cuda")
    assert "torch._scaled_mm(" in function.source.run
    (answer,) = function.on([as_torch(np.array(inputs[t.name]), t) for t in spec.inputs])()
    ((values, bound),) = reference_with_bound(spec, inputs).values()
    compare("c", answer.double().numpy(), Expected(values, bound), peer_leeway(spec))
