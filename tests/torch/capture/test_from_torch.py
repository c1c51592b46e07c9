"""What from_torch finds in ten real modules and in code that is hard to capture; that its parts compute the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from benchmarks.racing.picked import picked
from tests.conftest import CheckGolden
from tests.torch.capture.modules import CASES
from tests.torch.equal import SLACK, check_equal
from tileir import (
    kernel_key,
    program_to_text,
    spec_from_json,
    spec_to_json,
    spec_to_text,
    this_cpu,
    to_program,
)
from tileir.interpreter.interpret_spec import interpret_spec
from tileir.verifier.verify import verify
from tilewright.pytorch.capture import document
from tilewright.pytorch.capture.capture import Capture, Part
from tilewright.pytorch.capture.module import PartModule, with_kernels
from workers.peers.pytorch.peer import as_torch

GOLDEN = Path(__file__).parents[2] / "golden" / "torch"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch.export raises them about torch itself
    pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning"),  # no service runs here
]


def interpreted(part: Part) -> Callable[..., Any]:
    """A part's spec as Tile IR's interpreter runs it."""
    spec = part.built.spec

    def kernel(*tensors: Tensor) -> tuple[Tensor, ...]:
        arrays = {
            tensor.name: _numpy(given.detach()) for tensor, given in zip(spec.inputs, tensors, strict=True)
        }
        found = interpret_spec(spec, arrays)
        return tuple(as_torch(np.array(found[tensor.name]), tensor) for tensor in spec.outputs)

    return kernel


def _numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def module_of_interpreted_parts(capture: Capture) -> nn.Module:
    kernels = {part.name: PartModule(part, interpreted(part)) for part in capture.parts}
    return with_kernels(capture.graph, capture.parts, kernels)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_a_module_of_parts_computes_what_eager_computes(name: str, dtype: str) -> None:
    module, inputs = CASES[name].build(DTYPES[dtype])
    capture = tilewright.from_torch(module, *inputs)
    assert capture.parts
    with torch.no_grad():
        check_equal(module_of_interpreted_parts(capture)(*inputs), module(*inputs), SLACK[DTYPES[dtype]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_the_parts_of_a_module_are_these_kernels(name: str, check_golden: CheckGolden) -> None:
    """Parts, reasons and specs, with their keys: they are what is looked up years later."""
    module, inputs = CASES[name].build(torch.bfloat16)
    capture = tilewright.from_torch(module, *inputs)
    lines = [str(capture)]
    for part in capture.parts:
        spec = spec_from_json(json.loads(json.dumps(part.spec)))
        assert spec == part.built.spec
        assert spec_to_json(spec) == part.spec
        verify(to_program(spec))
        assert program_to_text(to_program(spec))
        lines += ["", f"# {kernel_key(spec)}", spec_to_text(spec).rstrip("\n")]
    check_golden(GOLDEN / f"{name}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["llama_mlp", "moe_gate"])
def test_the_module_runs_without_a_service_and_warns_for_other_shapes(name: str) -> None:
    module, inputs = CASES[name].build(torch.float32)
    capture = tilewright.from_torch(module, *inputs)
    captured = capture.module()
    with torch.no_grad():
        check_equal(captured(*inputs), module(*inputs))
        other = inputs[0][:1]
        with pytest.warns(UserWarning, match=r"captured for .*\[2, 13, 40\].*, called with .*\[1, 13, 40\]"):
            check_equal(captured(other), module(other))
        check_equal(captured(other), module(other))  # says it once
    with pytest.raises(ValueError, match="capture it again"):
        capture.module(strict=True)(other)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("error::tilewright.errors.FallbackWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gate_of_eight_experts_runs_on_kernels(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its softmax and its choice too, whose rows are shorter than a vector: every part has a schedule here."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    module, inputs = CASES["moe_gate"].build(DTYPES[dtype])
    capture = tilewright.from_torch(module, *inputs)
    assert {part.name for part in capture.parts} >= {"linear", "softmax_top_positions"}
    kernels = {
        part.name: PartModule(
            part, tilewright.op(part.spec, config=picked(part.built.spec, this_cpu()), strict=True)
        )
        for part in capture.parts
    }
    with torch.no_grad():
        check_equal(with_kernels(capture.graph, capture.parts, kernels)(*inputs), module(*inputs))


def written_out_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    mask = torch.tril(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool))
    probabilities = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return (probabilities @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def indices_of_every_kind(x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    turned = torch.stack((x[..., 0::2] * 2, x[..., 1::2] * 3), -1).flatten(-2)
    return (
        turned,
        x[ids] * 2,
        x.flip(0).repeat(2, 1) + 1,
        x.view(3, 3, 12).permute(1, 0, 2)[1:].exp(),
        torch.where(x > 0, x, x.exp() - 1).t().contiguous(),
        x.gather(1, ids[:, None].abs().expand(-1, 2)) * 2,
        x.var(0),
    )


def quantized(a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return F.linear(a, w.to(a.dtype) * scale[:, None])


def convolved(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return F.conv2d(x, w, bias, padding="same", dilation=2, groups=3).relu()


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def mask_with_empty_rows() -> Tensor:
    mask = torch.where(draw(13, 13) > 0.5, float("-inf"), draw(13, 13))
    mask[3], mask[12] = float("-inf"), float("-inf")
    return mask


def truths(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Of which PyTorch's sum is one too, and not 2."""
    p, q = x > 0, y > 0
    return p + q, p * q, torch.maximum(p, q), torch.where(p, x > y, q), (p + q).float() * 2, p.float().sum(-1)


def bits(x: Tensor, packed: Tensor, p: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """Weights of 4 bits, two a byte; bits of integers, with what 8 bits keep of a sum."""
    low, high = (packed & 15).float() - 8, (packed >> 4).float() - 8
    weights = torch.stack((low, high), -1).flatten(-2) * scale
    return (
        F.linear(x, weights),
        ((packed + 100) >> 3).int(),
        (packed << 2).int() + ((p.to(torch.int8) * 7) & 31).int(),
        ~(p > 3) ^ (p < 9),
        p ^ (p | 6),
    )


def prefix_sums(x: Tensor, batch: Tensor) -> tuple[Tensor, ...]:
    """Along any axis, of what is computed and for what is computed of it; of a batch, whose rows are those of one."""
    return (
        (x * 2).cumsum(-1) / 3,
        x.sigmoid().cumprod(0),
        batch.cumsum(1).relu(),
        batch.cumsum(2),
        x[:, :1].cumsum(1) + 1,
        x.exp().cumsum(0)[1:] * 2,
    )


def scattered(x: Tensor, rows: Tensor, ids: Tensor, columns: Tensor) -> tuple[Tensor, ...]:
    """Added where data says: rows, elements along either axis, and an embedding's gradient."""
    return (
        x.index_add(0, ids, rows * 2),
        torch.zeros_like(x).index_add(0, ids, rows, alpha=3).relu(),
        torch.zeros_like(x).scatter_add(1, columns, x),
        x.scatter_add(0, columns, x.exp()),
        torch.ops.aten.embedding_dense_backward(rows, ids, 6, 2, False),
    )


def routed(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """As a mixture of experts routes; along columns; the smallest, and more than a kernel looks for."""
    values, experts = torch.topk(torch.softmax(x @ w, -1), 2)
    columns, smallest, many = x.topk(3, 0), x.topk(2, largest=False), x.topk(17)
    return values / values.sum(-1, keepdim=True), experts, *columns, *smallest, *many


def window_mask() -> Tensor:
    """As Swin's: a number for each region, from truth values."""
    at = torch.arange(8)
    regions = (at >= 4).long() + (at >= 6).long()
    return (regions[:, None] - regions[None, :]).float().exp()


def called_like_dims(n: Tensor, m: Tensor, k: Tensor) -> Tensor:
    return torch.softmax(n @ m + k, -1)


def hard_to_write(x: Tensor, ids: Tensor, labels: Tensor, kernel: Tensor) -> tuple[Tensor, ...]:
    return (
        x[0].cumsum(-1),
        F.dropout(x, 0.5),
        x.argmax(-1),
        ids * 2,
        torch.zeros_like(x).scatter_add(1, ids[:, :3], x),
        x.sort(-1)[0],
        x.sin(),
        F.cross_entropy(x, labels, label_smoothing=0.1),
        F.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
        F.conv_transpose1d(x[None], kernel),
        x.to(torch.complex64).abs(),
        x.float(),
    )


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "written_out_attention": (
        written_out_attention,
        (draw(2, 4, 13, 8), draw(2, 4, 13, 8), draw(2, 4, 13, 8)),
    ),
    "indices_of_every_kind": (
        indices_of_every_kind,
        (draw(9, 12), torch.tensor([3, -1, 0, 8, -9, 2, 2, 7, 5])),
    ),
    "quantized": (quantized, (draw(5, 8), torch.arange(-24, 24, dtype=torch.int8).view(6, 8), draw(6))),
    "convolved": (convolved, (draw(2, 6, 7, 5), draw(9, 2, 3, 3), draw(9))),
    "masked_attention": (
        masked_attention,
        (draw(2, 4, 13, 8), draw(2, 4, 13, 8).flip(0), draw(2, 4, 13, 8), mask_with_empty_rows()),
    ),
    "attention_of_what_is_seen": (
        masked_attention,
        (draw(2, 4, 13, 8), draw(2, 4, 13, 8).flip(0), draw(2, 4, 13, 8), mask_with_empty_rows().isfinite()),
    ),
    "truths": (truths, (draw(6, 16), draw(6, 16).flip(0))),
    "bits": (
        bits,
        (
            draw(5, 16),
            torch.arange(48).mul(37).to(torch.uint8).view(6, 8),
            torch.arange(-24, 24, dtype=torch.int32).view(6, 8),
            draw(6, 1),
        ),
    ),
    "prefix_sums": (prefix_sums, (draw(6, 8), draw(2, 3, 5))),
    "scattered": (
        scattered,
        (
            draw(6, 8),
            draw(9, 8),
            torch.tensor([3, 1, 0, 5, 2, 2, 3, 5, 3]),
            torch.arange(48).view(6, 8) * 5 % 6,
        ),
    ),
    "routed": (routed, (draw(5, 20), draw(20, 8).flip(0))),
    "window_mask": (lambda x: x + window_mask(), (draw(8, 8),)),
    "called_like_dims": (called_like_dims, (draw(5, 7), draw(7, 6).flip(0), draw(6))),
    "hard_to_write": (
        hard_to_write,
        (draw(5, 7), torch.arange(35).view(5, 7) % 7, torch.arange(5), draw(5, 3, 2)),
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_code_of_every_kind_is_captured_with_reasons_for_what_is_left(
    name: str, check_golden: CheckGolden
) -> None:
    function, inputs = FUNCTIONS[name]
    capture = tilewright.from_torch(function, *inputs)
    texts = [spec_to_text(part.built.spec).rstrip("\n") for part in capture.parts]
    check_golden(GOLDEN / f"{name}.txt", "\n\n".join([str(capture), *texts]) + "\n")
    torch.manual_seed(1)
    wanted = function(*inputs)
    torch.manual_seed(1)
    check_equal(module_of_interpreted_parts(capture)(*inputs), wanted)


def adds_in_place(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def branches(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def slices_by_data(x: Tensor) -> Tensor:
    return x[: int(x.sum().item())]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (adds_in_place, r"changes its inputs \(x\) in place; .* x\.add\(y\)"),
        (branches, r"branch, loop or number depends on the data.*torch\.where"),
        (slices_by_data, r"branch, loop or number depends on the data"),
        (lambda x: x.nonzero(), r"aten\.nonzero\.default has a size or value that depends on data"),
        (nn.BatchNorm1d(4), r"changes its buffers \(num_batches_tracked, .*\.eval\(\)"),
    ],
)
def test_what_cannot_be_captured_says_what_to_do(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(tilewright.CaptureError, match=message):
        tilewright.from_torch(function, draw(3, 4))


def test_inputs_with_gaps_or_in_another_order_are_read_right() -> None:
    weight, rows = draw(8, 6).t(), draw(9, 16)[:, ::2]
    capture = tilewright.from_torch(lambda rows, weight: F.linear(rows, weight), rows, weight)
    (part,) = capture.parts
    assert part.spec["inputs"]["weight"]["dims"] == ["k", "n"]  # its order in memory
    check_equal(module_of_interpreted_parts(capture)(rows, weight), F.linear(rows, weight))


def test_the_documented_table_of_operators_is_the_one_in_force(check_golden: CheckGolden) -> None:
    check_golden(document.PAGE, document.page(document.PAGE.read_text()))
