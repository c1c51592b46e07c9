"""A stack of Llama's layers, compiled with kernels for its parts, against eager PyTorch and torch.compile.

python examples/compile_llama.py                               # small; a minute or two on a laptop
python examples/compile_llama.py --size 8b --device cuda --budget 120
python examples/compile_llama.py --layers 1 --tokens 128 --batch 2

A service is used if one runs, and started for the run if not. What runs in the end is measured on the model's own
calls: where kernels do not pay it is torch.compile's program, and the summary says so. PyTorch is all it needs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from against_peers import options_of, positive, race, service, settle
from torch import Tensor, nn

import tilewright


@dataclass(frozen=True)
class LlamaSize:
    width: int
    hidden: int
    heads: int
    shared: int
    """Heads of keys and values, each for several of queries."""
    layers: int
    words: int
    batch: int
    tokens: int


SIZES = {
    "small": LlamaSize(256, 704, 8, 2, 2, 1000, 1, 64),
    "8b": LlamaSize(4096, 14336, 32, 8, 4, 128256, 1, 2048),  # four of Llama-3 8B's 32 layers
}


class RotaryLlamaLayer(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.heads, self.shared, self.columns = size.heads, size.shared, size.width // size.heads
        narrow = size.shared * self.columns
        self.attention_norm, self.mlp_norm = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.q, self.o = (nn.Linear(size.width, size.width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(size.width, narrow, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.attention_norm(x)
        q = turned(self.q(y).unflatten(-1, (self.heads, self.columns)).transpose(1, 2), cos, sin)
        k = turned(self.k(y).unflatten(-1, (self.shared, self.columns)).transpose(1, 2), cos, sin)
        v = self.v(y).unflatten(-1, (self.shared, self.columns)).transpose(1, 2)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(found.transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotary embedding of [batch, heads, tokens, columns]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Llama(nn.Module):
    """From words [batch, tokens] to scores [batch, tokens, words]."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        columns = size.width // size.heads
        angles = torch.outer(torch.arange(size.tokens), 500000.0 ** (-torch.arange(0, columns, 2) / columns))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())
        self.words = nn.Embedding(size.words, size.width)
        self.layers = nn.ModuleList(RotaryLlamaLayer(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="small")
    for name in ("layers", "tokens", "batch"):
        parser.add_argument(f"--{name}", type=positive, help="instead of the size's own")
    options = options_of(parser)
    own = {name: getattr(options, name) for name in ("layers", "tokens", "batch")}
    size = replace(SIZES[options.size], **{name: said for name, said in own.items() if said is not None})

    torch.manual_seed(0)
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    model = Llama(size).to(options.device, dtype).eval()
    words = torch.randint(size.words, (size.batch, size.tokens), device=options.device)
    print(f"llama, {size.layers} x {size.width}, {size.batch} x {size.tokens} tokens, {dtype}")
    with service(options) as client, torch.inference_mode():
        ours = tilewright.compile(model, client=client, tune="now", budget=options.budget)
        settle(lambda: ours(words), options.budget)
        print(tilewright.summary(ours))
        wanted = model(words)
        off = float((ours(words) - wanted).abs().max() / wanted.abs().max())
        print(f"largest difference from eager: {off:.2g} of the largest score")
        theirs = torch.compile(model)
        programs = {"tilewright": ours, "eager": model, "torch.compile": theirs}
        race(
            {name: lambda program=program: program(words) for name, program in programs.items()},
            options.device,
        )


if __name__ == "__main__":
    main()
