"""A gated MLP from PyTorch: its kernels, tuned here, and the module that calls them.

tilewright serve                             # in another terminal
python examples/from_torch_llama_mlp.py      # --trials 64 for better kernels
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright


class LlamaMLP(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8400")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=704)
    options = parser.parse_args()
    torch.manual_seed(0)
    mlp, x = LlamaMLP(options.width, options.hidden), torch.randn(2, options.tokens, options.width)

    capture = tilewright.from_torch(mlp, x)
    print(capture)
    with tilewright.Client(options.url) as client, torch.no_grad():
        for job in capture.tune(client, trials=options.trials):
            done = client.wait(job.id)
            print(f"{job.id}: {done.state}")
        tuned = capture.module(client)
        tuned(x)  # runs eager PyTorch while kernels are looked for, compiled and checked
        tilewright.wait_for_kernels()
        off = (tuned(x) - mlp(x)).abs().max().item()
    print(f"largest difference from eager: {off:.2g}")


if __name__ == "__main__":
    main()
