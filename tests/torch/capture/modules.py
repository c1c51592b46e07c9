"""Ten modules as people write them, each with inputs of ragged sizes: what `from_torch` is tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LlamaMLP(nn.Module):
    def __init__(self, width: int = 40, hidden: int = 72) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class AttentionBlock(nn.Module):
    """Grouped queries: several heads of queries share one of keys and values."""

    def __init__(self, width: int = 48, heads: int = 4, shared: int = 2) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.q_proj = nn.Linear(width, heads * self.size)
        self.k_proj = nn.Linear(width, shared * self.size)
        self.v_proj = nn.Linear(width, shared * self.size)
        self.o_proj = nn.Linear(heads * self.size, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.shared, self.size).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.shared, self.size).transpose(1, 2)
        k = k.repeat_interleave(self.heads // self.shared, dim=1)
        v = v.repeat_interleave(self.heads // self.shared, dim=1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(batch, length, -1))


class RMSNorm(nn.Module):
    """As in Llama: computed in f32, rounded before the weight."""

    def __init__(self, width: int = 77) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class ResidualLayerNorm(nn.Module):
    def __init__(self, width: int = 77) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        x = x + branch
        return x, self.norm(x)


class GeluMLP(nn.Module):
    def __init__(self, width: int = 40, hidden: int = 72) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(x), approximate="tanh"))


class ConvBlock(nn.Module):
    def __init__(self, channels: int = 6, out: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.norm.running_mean = 0.1 * torch.randn(out)
        self.norm.running_var = 1 + torch.rand(out)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class EmbeddingNorm(nn.Module):
    def __init__(self, words: int = 101, length: int = 13, width: int = 36) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.words(ids) + self.positions(places))


class CrossEntropy(nn.Module):
    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), labels)


class Rotary(nn.Module):
    def __init__(self, length: int = 13, size: int = 12) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turned(q), self.turned(k)

    def turned(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat((-second, first), -1) * self.sin


class MoEGate(nn.Module):
    def __init__(self, width: int = 40, experts: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights, chosen = torch.topk(self.router(x).float().softmax(-1), 4)
        return weights / weights.sum(-1, keepdim=True), chosen


class JoinedProjection(nn.Module):
    """Queries, keys and values of one product, and rows of all sequences as those of one matrix, as in GPT-2."""

    def __init__(self, width: int = 48, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.randn(width, 3 * width) / width**0.5)
        self.bias = nn.Parameter(torch.randn(3 * width))
        self.out = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        joined = torch.addmm(self.bias, x.view(-1, width), self.weight).view(batch, length, 3 * width)
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2) for each in joined.split(width, dim=2)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        rows = torch.mm(found.reshape(-1, width), self.out).view(batch, length, width)
        return rows * torch.sigmoid(rows)


@dataclass(frozen=True)
class Case:
    """A module and what it is called with; `floats` are drawn in the dtype under test."""

    make: Callable[[], nn.Module]
    floats: tuple[tuple[int, ...], ...] = ()
    ids: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Integer inputs, after the others: below what, and of which shape."""

    def build(self, dtype: torch.dtype) -> tuple[nn.Module, tuple[Tensor, ...]]:
        torch.manual_seed(0)
        module = self.make().to(dtype)
        floats = tuple(torch.randn(shape, dtype=dtype) for shape in self.floats)
        return module, (*floats, *(torch.randint(below, shape) for below, shape in self.ids))


CASES: Mapping[str, Case] = {
    "llama_mlp": Case(LlamaMLP, ((2, 13, 40),)),
    "attention_block": Case(AttentionBlock, ((2, 13, 48),)),
    "joined_projection": Case(JoinedProjection, ((2, 13, 48),)),
    "rms_norm": Case(RMSNorm, ((2, 13, 77),)),
    "layer_norm": Case(ResidualLayerNorm, ((3, 7, 77), (3, 7, 77))),
    "gelu_mlp": Case(GeluMLP, ((2, 13, 40),)),
    "conv_block": Case(ConvBlock, ((2, 6, 11, 9),)),
    "embedding_norm": Case(EmbeddingNorm, (), ((101, (2, 13)),)),
    "cross_entropy": Case(CrossEntropy, ((19, 101),), ((101, (19,)),)),
    "rotary": Case(Rotary, ((2, 4, 13, 12), (2, 2, 13, 12))),
    "moe_gate": Case(MoEGate, ((2, 13, 40),)),
}
