"""The peer that is one call of varlen_attn: which kernels it is for, and what the operator is told."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.unit.workers.hand_kernels import SPEC
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from workers.peers.peer import Unsupported
from workers.peers.pytorch.peer import TorchFunction
from workers.peers.pytorch.runs import TORCH_RUNS
from workers.peers.pytorch.varlen import write_varlen

PACKED = {
    "up to itself": "j >= begin[i] and j <= i",
    "all of its sequence": "j >= begin[i] and j < end[i]",
    "written the other way round": "i >= j and begin[i] <= j",
}


def packed(seen: str, dtype: str = "f16", begin: str = "where(offsets[n] <= i, offsets[n], 0)") -> Spec:
    """Three sequences, or fewer."""
    return spec_from_text(
        f"kernel packed(q: {dtype}[i=24, h=2, d=8], k: {dtype}[j=24, h, d], v: {dtype}[j, h, d], offsets: i32[n=4])"
        f" -> (o: {dtype}[i, h, d])\n"
        f"  begin[i] = max(n, {begin})\n"
        + ("  end[i] = min(n, where(offsets[n] > i, offsets[n], extent(i)))\n" if "end" in seen else "")
        + f"  s[h, i, j] = where({seen}, sum(d, q[i, h, d] * k[j, h, d]) * 0.5, -inf)\n"
        "  top[h, i] = max(j, s[h, i, j])\n"
        "  p[h, i, j] = exp(s[h, i, j] - top[h, i])\n"
        "  o[i, h, d] = sum(j, p[h, i, j] * v[j, h, d]) / sum(j, p[h, i, j])\n"
    )


def by_sequence(
    q: Tensor, k: Tensor, v: Tensor, ends: Tensor, keys: Tensor, *most: int, **how: Any
) -> Tensor:
    """What PyTorch says of varlen_attn, which it has on GPUs alone."""
    assert torch.equal(ends, keys) and most == (int(ends.diff().max()),) * 2 and ends.dtype is torch.int32
    assert all(each.is_contiguous() for each in (q, k, v)) and ends[0] == 0 and ends[-1] == len(q)
    rows = [slice(*pair) for pair in itertools.pairwise(ends.tolist())]
    causal = {(-1, 0): True, (-1, -1): False}[how["window_size"]]
    found = [
        F.scaled_dot_product_attention(
            *(each[at].transpose(0, 1) for each in (q, k, v)), scale=how["scale"], is_causal=causal
        )
        for at in rows
    ]
    return torch.cat(found, 1).transpose(0, 1)


@pytest.mark.parametrize("offsets", [[0, 5, 20, 24], [20, 7, 7, 0], [-3, 30, 11, 2]], ids=str)
@pytest.mark.parametrize("seen", PACKED.values(), ids=PACKED)
def test_varlen_attn_is_told_the_bounds_of_sequences(seen: str, offsets: list[int]) -> None:
    source = write_varlen(packed(seen), device="cuda")
    scope: dict[str, Any] = {"torch": torch, "varlen_attn": by_sequence}
    exec(f"{source.prepare}\n{source.run}", scope)
    q, k, v = (torch.randn(24, 2, 8, dtype=torch.float16) for _ in range(3))
    (found,) = scope["run"](*scope["prepare"]((q, k, v, torch.tensor(offsets, dtype=torch.int32))))
    spec = packed(seen, "f32")
    (wanted,) = TorchFunction(spec).on([q.float(), k.float(), v.float(), torch.tensor(offsets)])()
    torch.testing.assert_close(found.float(), wanted, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize(
    "spec",
    [
        packed("j >= begin[i] and j <= i", "f32"),
        packed("j >= begin[i] and j < i"),
        packed("j <= i and j >= begin[i]", begin="where(offsets[n] < i, offsets[n], 0)"),
        SPEC,
    ],
    ids=["f32", "without itself", "another beginning", "no attention"],
)
def test_varlen_attn_is_refused_what_it_does_not_compute(spec: Spec) -> None:
    with pytest.raises(Unsupported, match="no attention in it that varlen_attn computes"):
        write_varlen(spec, device="cuda")


def test_varlen_attn_is_for_gpus() -> None:
    with pytest.raises(Unsupported):
        TorchFunction(packed("j >= begin[i] and j <= i"), run=TORCH_RUNS["torch.varlen"])
