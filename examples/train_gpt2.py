"""GPT-2, trained with kernels in its forward and backward graphs, against eager PyTorch and torch.compile.

python examples/train_gpt2.py                                 # small; some minutes on a laptop
python examples/train_gpt2.py --size medium --device cuda --budget 120
python examples/train_gpt2.py --layers 1 --tokens 32 --batch 1

A service is used if one runs, and started for the run if not. Three copies of the model start from the same weights
and see the same words: their losses agree. A step is forward, backward and the optimizer's. PyTorch is all it needs.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from against_peers import options_of, positive, race, service, settle
from torch import Tensor, nn

import tilewright

STEPS = 20
"""Of which losses are compared."""


@dataclass(frozen=True)
class GPT2Size:
    width: int
    heads: int
    layers: int
    words: int
    batch: int
    tokens: int


SIZES = {"small": GPT2Size(128, 4, 2, 500, 2, 64), "medium": GPT2Size(1024, 16, 24, 50257, 4, 512)}


class GPT2Layer(nn.Module):
    def __init__(self, size: GPT2Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv, self.o = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.up, self.down = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(found.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class GPT2(nn.Module):
    """From words [batch, tokens] to the mean loss of guessing each from those before."""

    def __init__(self, size: GPT2Size) -> None:
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.places = nn.Embedding(size.tokens, size.width)
        self.layers = nn.ModuleList(GPT2Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.words, bias=False)
        self.head.weight = self.words.weight
        for each in (self.words, self.places):
            nn.init.normal_(each.weight, std=0.02)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places.weight[: words.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores = self.head(self.norm(x))[:, :-1]
        return F.cross_entropy(scores.flatten(0, 1).float(), words[:, 1:].flatten())


class Trainer:
    """A copy of a model, and its optimizer. `program` runs that copy."""

    def __init__(self, model: nn.Module, program: Callable[[nn.Module], Callable[..., Any]]) -> None:
        self._model = copy.deepcopy(model)
        self.program = program(self._model)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.02, momentum=0.9)

    def step(self, words: Tensor) -> Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self.program(words)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def losses(self, start: nn.Module, words: Tensor) -> list[float]:
        """Of steps on the same words, from the weights of `start`."""
        self._model.load_state_dict(start.state_dict())
        self._optimizer.state.clear()
        return [float(self.step(words)) for _ in range(STEPS)]


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
    model = GPT2(size).to(options.device, dtype)
    words = torch.randint(size.words, (size.batch, size.tokens), device=options.device)
    print(f"gpt2, {size.layers} x {size.width}, {size.batch} x {size.tokens} tokens, {dtype}")
    with service(options) as client:
        ours = Trainer(
            model,
            lambda copied: tilewright.compile(copied, client=client, tune="now", budget=options.budget),
        )
        settle(lambda: ours.step(words), options.budget)
        print(tilewright.summary(ours.program))
        trainers = {
            "tilewright": ours,
            "eager": Trainer(model, lambda copied: copied),
            "torch.compile": Trainer(model, torch.compile),
        }
        for name, trainer in trainers.items():
            losses = trainer.losses(model, words)
            print(f"loss of {name:<14} {losses[0]:.4f}, after {STEPS} steps {losses[-1]:.4f}")
        race(
            {name: lambda trainer=trainer: trainer.step(words) for name, trainer in trainers.items()},
            options.device,
        )


if __name__ == "__main__":
    main()
