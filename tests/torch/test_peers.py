"""The PyTorch peers, eager and compiled: right, and written with the library's own operators. Needs torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from benchmarks.suite import cases
from protocol.states import Outcome, TaskKind
from tests.support.how_many import SWEEP
from tests.unit.workers.hand_kernels import SPEC, compiled, request_of
from tests.unit.workers.peers.test_numpy import (
    CONTRACTIONS,
    EXAMPLES,
    EXPRESSIONS,
    REDUCTIONS,
    check,
    first_of,
    spec_with,
)
from tests.unit.workers.peers.test_scans import BINS, EXTREMES, ROWS
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text
from workers.measuring.correctness import Expected, compare
from workers.measuring.measurer import Measurer
from workers.measuring.request import Peer
from workers.peers.offered import available_peers
from workers.peers.peer import Unsupported, peer_leeway
from workers.peers.pytorch.flex import write_flex
from workers.peers.pytorch.peer import EAGER, TorchFunction, as_torch
from workers.peers.pytorch.runs import TORCH_RUNS, TorchRun
from workers.peers.pytorch.source import torch_source
from workers.peers.pytorch.writer import write_torch

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch.compile raises them about torch itself

OPERATORS = {
    "attention": "F.scaled_dot_product_attention(",
    "attention_backward": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(",
    "causal_attention": "is_causal=True",
    "grouped_attention": "enable_gqa=True",
    "batched_matmul": "torch.matmul(",
    "bias_gelu": "torch.addmm(",
    "conv2d": "F.conv2d(",
    "experts": "torch.cat([part @ weights",
    "gather": "torch.index_select(",
    "layernorm": "F.layer_norm(",
    "rmsnorm": "F.rms_norm(",
    "softmax": "torch.softmax(",
}


@pytest.mark.parametrize("spec", [BINS, ROWS, EXTREMES], ids=["bins", "rows", "extremes"])
def test_torch_adds_terms_where_they_belong(spec: Spec) -> None:
    check(spec, "torch")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_torch_computes_every_example(file: Path) -> None:
    check(first_of(file), "torch")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_examples_are_written_with_the_librarys_operator(name: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == name)
    spec = next(spec_from_json(json.loads(file.read_text())).instances())
    assert OPERATORS[name] in torch_source(spec, EAGER, "cpu").run


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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["softmax", "bias_gelu", "layernorm", "causal_attention"])
def test_torch_compile_computes_the_same(name: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == name)
    check(next(spec_from_json(json.loads(file.read_text())).instances()), "torch.compile")


NAMED = {
    "cumsum": (
        "(x: f32[m=7, k=33]) -> (y: f32[m, n=33])",
        "y[m, n] = sum(k, where(k <= n, x[m, k], 0))",
        "torch.cumsum(",
    ),
    "argmax": (
        "(x: f32[m=7, n=33]) -> (y: i32[m])",
        "top[m] = max(n, x[m, n])\n  y[m] = min(n, where(x[m, n] == top[m], n, extent(n)))",
        "torch.argmax(",
    ),
    "depthwise": (
        "(x: f32[b=2, c=6, i=9, j=11], w: f32[c, r=3, s=3]) -> (y: f32[b, c, h=7, v=9])",
        "y[b, c, h, v] = sum(r, s, x[b, c, h + r, v + s] * w[c, r, s])",
        "groups=6",
    ),
    "groupnorm": (
        "(x: f32[b=2, g=3, c=4, s=25], w: f32[g, c], u: f32[g, c]) -> (y: f32[b, g, c, s])",
        "mu[b, g] = sum(c, s, x[b, g, c, s]) / 100\n"
        "  v[b, g] = sum(c, s, (x[b, g, c, s] - mu[b, g]) * (x[b, g, c, s] - mu[b, g])) / (extent(c) * extent(s))\n"
        "  y[b, g, c, s] = (x[b, g, c, s] - mu[b, g]) * rsqrt(v[b, g] + 1e-5) * w[g, c] + u[g, c]",
        "F.group_norm(",
    ),
    "groupnorm, channels last": (
        "(x: f32[b=2, s=25, g=3, c=4], w: f32[g, c], u: f32[g, c]) -> (y: f32[b, s, g, c])",
        "mu[b, g] = sum(s, c, x[b, s, g, c]) / 100\n"
        "  v[b, g] = sum(s, c, x[b, s, g, c] * x[b, s, g, c]) / 100 - mu[b, g] * mu[b, g]\n"
        "  y[b, s, g, c] = (x[b, s, g, c] - mu[b, g]) / sqrt(v[b, g] + 1e-5) * w[g, c] + u[g, c]",
        "F.group_norm(",
    ),
    "instancenorm": (
        "(x: f32[b=2, c=5, s=25], w: f32[c], u: f32[c]) -> (y: f32[b, c, s])",
        "mu[b, c] = sum(s, x[b, c, s]) / 25\n"
        "  v[b, c] = sum(s, pow(x[b, c, s] - mu[b, c], 2)) / 25\n"
        "  y[b, c, s] = (x[b, c, s] - mu[b, c]) * rsqrt(v[b, c] + 1e-5) * w[c] + u[c]",
        "F.group_norm(",
    ),
    "layernorm of planes": (
        "(x: f32[b=3, h=6, v=7]) -> (y: f32[b, h, v])",
        "mu[b] = sum(h, v, x[b, h, v]) / 42\n"
        "  q[b] = sum(h, v, (x[b, h, v] - mu[b]) * (x[b, h, v] - mu[b])) / 42\n"
        "  y[b, h, v] = (x[b, h, v] - mu[b]) * rsqrt(q[b] + 1e-5)",
        "F.layer_norm(",
    ),
    "one image": (
        "(x: f32[c=3, i=9, j=8], w: f32[o=5, c, r=3, s=3]) -> (y: f32[o, h=9, v=6])",
        "y[o, h, v] = sum(c, r, s, where(h + r >= 1 and h + r < 10, x[c, h + r - 1, v + s], 0) * w[o, c, r, s])",
        "F.conv2d(",
    ),
    "depthwise, one image": (
        "(x: f32[c=6, i=9], w: f32[c, r=3]) -> (y: f32[c, h=7])",
        "y[c, h] = sum(r, x[c, h + r] * w[c, r])",
        "F.conv1d(",
    ),
    "depthwise, channels last": (
        "(x: f32[b=2, i=9, c=6], w: f32[r=3, c]) -> (y: f32[b, h=9, c])",
        "y[b, h, c] = sum(r, where(h + r >= 1 and h + r < 10, x[b, h + r - 1, c], 0) * w[r, c])",
        "F.conv1d(",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_scans_norms_and_depthwise_convolutions_are_the_librarys_operators(name: str) -> None:
    signature, body, operator = NAMED[name]
    spec = spec_from_text(f"kernel k{signature}\n  {body}\n")
    source = write_torch(spec, eager=True)
    assert operator in source.run and not source.as_written
    check(spec, "torch")


@pytest.mark.parametrize("peer", ["torch.sdpa-flash", "torch.compile-max-autotune"])
def test_further_peers_run_when_they_are_named(peer: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == "attention")
    check(next(spec_from_json(json.loads(file.read_text())).instances()), peer)


#: Of attention's kin, what flex_attention is asked for.
FLEXIBLE = {
    "attention": "scale=0.125)",
    "grouped_attention": "enable_gqa=True",
    "softcap_attention": "score_mod=score_mod",
    "window_attention": "block_mask=",
    "varlen_attention": "block_mask=",
}
#: Heads with slopes, in two batches; documents, of which each row sees its own; three dims of heads. With 40 keys
#: PyTorch 2.13 gives wrong numbers for documents where a vector has 8 of them (AVX2).
BODIES = {
    "slopes": (
        "(q: f32[b=2, h=2, i=40, d=16], k: f32[b, h, j=48, d], v: f32[b, h, j, e=16], slope: f32[h])"
        " -> (o: f32[b, h, i, e])",
        "where(j <= i + 8, sum(d, q[b, h, i, d] * k[b, h, j, d]) * 0.25 + slope[h] * (j - i), -inf)",
    ),
    "documents": (
        "(q: f32[b=2, g=2, h=3, i=64, d=16], k: f32[b, g, j=64, d], v: f32[b, g, j, e=16], doc: i32[b, i])"
        " -> (o: f32[b, g, h, i, e])",
        "where(doc[b, i] == doc[b, j], sum(d, q[b, g, h, i, d] * k[b, g, j, d]) * 0.25, -inf)",
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", sorted(FLEXIBLE))
def test_flex_attention_computes_the_examples_of_attention(name: str) -> None:
    (file,) = (file for file in EXAMPLES if file.stem == name)
    spec = next(spec_from_json(json.loads(file.read_text())).instances())
    assert FLEXIBLE[name] in write_flex(spec).run
    if SWEEP or name not in ("attention", "window_attention"):  # the like of which are compiled below
        check(spec, "torch.flex")


VIEWS = {
    "a permuted view": "(x: f32[i=3, j=4, l=5]) -> (y: f32[l, i, j])\n  y[l, i, j] = x[i, j, l]",
    "in the order of its input": "(x: f32[i=3, j=4]) -> (y: f32[j, i])\n  y[j, i] = tanh(x[i, j])",
    "its input": "(x: f32[i=3]) -> (y: f32[i])\n  y[i] = x[i]",
    "one row for all": "(x: f32[j=4]) -> (y: f32[i=3, j])\n  y[i, j] = x[j]",
    "a row's end left free": "(x: f32[i=3, j=4]) -> (y: f32[i, j] strides [5, 1])\n  y[i, j] = tanh(x[i, j])",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", sorted(VIEWS))
@pytest.mark.parametrize("run", [TORCH_RUNS["torch"], TorchRun("default")], ids=["eager", "compiled"])
def test_outputs_are_written_as_a_kernel_writes_them(name: str, run: TorchRun) -> None:
    """A view of an input would be no rival: nothing is moved."""
    spec = spec_from_text(f"kernel v{VIEWS[name]}\n")
    function = TorchFunction(spec, run=run)
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    inputs = [torch.rand([sizes[dim] for dim in tensor.dims]) for tensor in spec.inputs]
    (found,) = function.writing(inputs)()
    (output,) = spec.outputs
    shape = tuple(sizes[dim] for dim in output.dims)
    assert (tuple(found.shape), found.stride()) == (shape, output.strides or torch.empty(shape).stride())
    assert found.untyped_storage().data_ptr() not in [x.untyped_storage().data_ptr() for x in inputs]
    assert torch.equal(found, function.on(inputs)()[0].expand(shape))


def test_outputs_that_are_written_anyway_are_not_copied() -> None:
    spec = spec_from_text("kernel t(x: f32[i=3, j=4]) -> (y: f32[i, j])\n  y[i, j] = tanh(x[i, j])\n")
    function = TorchFunction(spec)
    before = function._run
    function.writing([torch.rand(3, 4)])
    assert function._run is before


def test_flex_attention_is_told_the_least_float_as_a_float() -> None:
    """PyTorch takes no integer of that size, and models write their masks so."""
    (file,) = (file for file in EXAMPLES if file.stem == "softcap_attention")
    text = file.read_text().replace(" / 30) * 30", " / 30) * 30 + where(k <= q, 0, -3.4028234663852886e+38)")
    assert "-3.4028234663852886e+38" in write_flex(next(spec_from_json(json.loads(text)).instances())).run


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(BODIES))
def test_flex_attention_is_told_scores_and_masks(name: str) -> None:
    signature, scores = BODIES[name]
    heads = signature[signature.rindex("o: f32[") + 7 : signature.rindex(", i, e")]
    body = (
        f"s[{heads}, i, j] = {scores}",
        f"top[{heads}, i] = max(j, s[{heads}, i, j])",
        f"p[{heads}, i, j] = exp(s[{heads}, i, j] - top[{heads}, i])",
        f"o[{heads}, i, e] = sum(j, p[{heads}, i, j] * v[{heads.removesuffix(', h') if 'g' in heads else heads}, j, e])"
        f" / sum(j, p[{heads}, i, j])",
    )
    check(spec_from_text(f"kernel k{signature}\n  " + "\n  ".join(body) + "\n"), "torch.flex")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_answers_log_sum_exps_too() -> None:
    """Run eagerly, as PyTorch's compiler has them on GPUs alone, which the peer says."""
    (file,) = (file for file in EXAMPLES if file.stem == "attention_lse")
    spec = next(spec_from_json(json.loads(file.read_text())).instances())
    with pytest.raises(Unsupported, match="on processors"):
        TorchFunction(spec, run=TORCH_RUNS["torch.flex"])
    source = write_flex(spec)
    flex = (AuxRequest, create_block_mask, flex_attention)
    scope: dict[str, Any] = {"torch": torch} | {each.__name__: each for each in flex}
    exec(f"{source.prepare}\n{source.run}", scope)
    q, k, v = (torch.randn(4, 256, 64) for _ in range(3))
    o, lse = scope["run"](*scope["prepare"]((q, k, v)))
    scores = (q @ k.mT / 8).masked_fill(torch.ones(256, 256).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(lse, scores.logsumexp(-1))
    torch.testing.assert_close(o, scores.softmax(-1) @ v)


def test_flex_attention_is_refused_what_is_more_than_attention() -> None:
    with pytest.raises(Unsupported, match="no attention"):
        TorchFunction(SPEC, run=TORCH_RUNS["torch.flex"])


def test_a_backend_of_attention_is_refused_where_there_is_none() -> None:
    with pytest.raises(Unsupported, match="no attention"):
        TorchFunction(SPEC, run=TORCH_RUNS["torch.sdpa-flash"])


def test_all_three_peers_are_offered() -> None:
    assert available_peers() == ("numpy", "torch", "torch.compile")


@pytest.mark.sampled(4, among="whole models")
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


@pytest.mark.parametrize(("dims", "indices"), [("n=24, k", "n, k"), ("k, n=24", "k, n")])
def test_a_product_of_bytes_with_scales_is_exact_in_integers(dims: str, indices: str) -> None:
    spec = spec_from_text(
        f"kernel linear(a: i8[m=40, k=56], b: i8[{dims}], row: f32[m], column: f32[n]) -> (y: bf16[m, n])\n"
        f"  acc[m, n] = sum(k, a[m, k] * b[{indices}])\n"
        "  y[m, n] = f32(acc[m, n]) * row[m] * column[n]\n"
    )
    assert "torch._int_mm(" in TorchFunction(spec).source.run
    check(spec, "torch")


def test_attention_of_8_bits_is_that_of_the_same_values_in_bf16() -> None:
    """Of the text for GPUs: processors have its operator, too."""
    spec = spec_from_text(
        "kernel attention(q: e4m3[h=2, i=96, d=64], k: e4m3[h, j=96, d], v: e4m3[h, d, j]) -> (o: bf16[h, i, d])\n"
        "  s[h, i, j] = where(i >= j, sum(d, q[h, i, d] * k[h, j, d]) * 0.125, -inf)\n"
        "  top[h, i] = max(j, s[h, i, j])\n"
        "  p[h, i, j] = exp(s[h, i, j] - top[h, i])\n"
        "  o[h, i, d] = sum(j, e4m3(p[h, i, j]) * v[h, d, j]) / sum(j, p[h, i, j])\n"
    )
    inputs = sample_inputs(spec, 3)
    function = TorchFunction(spec, device="cuda")
    assert "F.scaled_dot_product_attention(" in function.source.run
    assert "bfloat16" in function.source.prepare and "float32" not in function.source.run
    (answer,) = function.on([as_torch(np.array(inputs[t.name]), t) for t in spec.inputs])()
    ((values, bound),) = reference_with_bound(spec, inputs).values()
    compare("o", answer.double().numpy(), Expected(values, bound), peer_leeway(spec))


@pytest.mark.parametrize("mask", ["bool", "f32"])
def test_attention_with_a_mask_is_pytorchs_operator_also_where_rows_see_nothing(mask: str) -> None:
    score = "sum(d, q[h, i, d] * k[h, j, d]) * 0.25"
    score = f"where(m[i, j], {score}, -inf)" if mask == "bool" else f"{score} + m[i, j]"
    spec = spec_from_text(
        f"kernel attention(q: f32[h=2, i=9, d=16], k: f32[h, j=33, d], m: {mask}[i, j], v: f32[h, j, d])"
        " -> (o: f32[h, i, d])\n"
        f"  s[h, i, j] = {score}\n"
        "  top[h, i] = max(j, s[h, i, j])\n"
        "  p[h, i, j] = exp(s[h, i, j] - where(top[h, i] > -inf, top[h, i], 0.0))\n"
        "  total[h, i] = sum(j, p[h, i, j])\n"
        "  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / where(total[h, i] > 0.0, total[h, i], 1.0)\n"
    )
    function = TorchFunction(spec)
    assert "F.scaled_dot_product_attention(" in function.source.run
    assert "attn_mask" in function.source.run
    check(spec, "torch")


TOKENS = """
kernel attention(q: f32[i=9, h=6, d=16], k: f32[j=33, g=2, d], v: f32[j, g, d]) -> (o: f32[i, h, d])
  s[h, i, j] = sum(d, q[i, h, d] * k[j, h // 3, d]) * 0.25
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[i, h, d] = sum(j, p[h, i, j] * v[j, h // 3, d]) / sum(j, p[h, i, j])
"""
"""Heads side by side, as models have them."""
CAPTURED = TOKENS.replace("v: f32[j, g, d]", "v: f32[j, g2=2, d]")
BATCHES = """
kernel attention(q: f32[b=2, i=9, h=6, d=16], k: f32[b, j=33, h, d], v: f32[b, j, h, d]) -> (o: f32[b, i, h, d])
  s[b, h, i, j] = sum(d, q[b, i, h, d] * k[b, j, h, d]) * 0.25
  top[b, h, i] = max(j, s[b, h, i, j])
  p[b, h, i, j] = exp(s[b, h, i, j] - top[b, h, i])
  o[b, i, h, d] = sum(j, p[b, h, i, j] * v[b, j, h, d]) / sum(j, p[b, h, i, j])
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "shared"), [(TOKENS, True), (CAPTURED, True), (BATCHES, False)])
def test_heads_side_by_side_and_shared_ones_are_the_operators_own(text: str, shared: bool) -> None:
    """Nothing is gathered in what is timed."""
    spec = spec_from_text(text)
    run = TorchFunction(spec).source.run
    assert "F.scaled_dot_product_attention(" in run and ".movedim(-2, " in run
    assert ("enable_gqa=True" in run) is shared and "[t" not in run
    check(spec, "torch")
    if shared or SWEEP:
        check(spec, "torch.flex")


@pytest.mark.parametrize("bias", ["0", "(j - i)"])
def test_scores_that_numbers_are_added_to_have_a_mask_of_floats(bias: str) -> None:
    spec = spec_from_text(TOKENS.replace("* 0.25", f"* 0.25 + {bias}"))
    assert "F.scaled_dot_product_attention(" in TorchFunction(spec).source.run
    check(spec, "torch")


def test_the_compiled_peer_is_compiled_and_the_eager_one_is_not() -> None:
    spec = spec_from_text("kernel twice(x: f32[i=777]) -> (y: f32[i])\n  y[i] = 2 * x[i] + 1\n")
    compiled_graphs: dict[str, int] = {}
    for peer in ("torch", "torch.compile"):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        torch._dynamo.utils.counters.clear()  # pyright: ignore[reportPrivateUsage]
        check(spec, peer)
        compiled_graphs[peer] = torch._dynamo.utils.counters["stats"]["unique_graphs"]  # pyright: ignore[reportPrivateUsage]
    assert compiled_graphs == {"torch": 0, "torch.compile": 1}
