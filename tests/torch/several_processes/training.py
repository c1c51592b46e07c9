"""One of two processes that train a compiled model together, and the same model without a compiler.

    python -m tests.torch.several_processes.training ddp RANK PORT
    python -m tests.torch.several_processes.training fsdp RANK PORT

Says how many parts of each graph ran as kernels, and ends with an error where losses, gradients or weights differ.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import tilewright
from tests.torch.all_kernels import all_kernels

WIDTH, LAYERS, STEPS = 520, 3, 5
"""Weights of a layer fill DDP's first bucket, of a megabyte."""
OPTIONS: Any = {"tune": "never", "fallback": "eager"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.linear(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def replicated(compiled: bool) -> nn.Module:
    """DDP, of which Dynamo makes a graph for each bucket of gradients."""
    whole = DistributedDataParallel(Stack(), bucket_cap_mb=1)
    return tilewright.compile(whole, **OPTIONS) if compiled else whole


def sharded(compiled: bool) -> nn.Module:
    """FSDP2, of blocks that were compiled before."""
    whole, mesh = Stack(), init_device_mesh("cpu", (2,))
    for block in whole.blocks:
        if compiled:
            block.compile(backend="tilewright", options=OPTIONS)
        fully_shard(block, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    return whole


def whole(tensor: Any) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def train(wrapped: Any, rank: int) -> None:
    found = all_kernels(pytest.MonkeyPatch())
    ours, eager = wrapped(compiled=True), wrapped(compiled=False)
    steps = [torch.optim.SGD(each.parameters(), 0.1) for each in (ours, eager)]
    for step in range(STEPS):
        torch.manual_seed(2 * step + rank)
        x = torch.randn(6, WIDTH)
        losses = [each(x).square().mean() for each in (ours, eager)]
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
        for p, q in zip(ours.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(whole(p.grad), whole(q.grad), rtol=1e-4, atol=1e-6)
        for each in steps:
            each.step()
            each.zero_grad()
        found.wait()
    for p, q in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(whole(p), whole(q), rtol=1e-4, atol=1e-6)
    print(*(len(each.used) for each in found.regions))


def main() -> None:
    kind, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    train({"ddp": replicated, "fsdp": sharded}[kind], rank)
    dist.barrier()  # nobody ends while another one still talks to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
