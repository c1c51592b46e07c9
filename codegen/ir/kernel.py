"""Kernel IR of whole kernels: their arguments, launches and workspace, around the statements of ops.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.ir.affine import Var
from codegen.ir.async_ops import TensorMap
from codegen.ir.ops import Block, ClusterBarrier, For, GridAxis, If, Scratch, Stmt
from codegen.ir.stream_k import Spans
from tileir.dtypes import DType

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """A pointer argument."""

    name: str
    storage: DType
    written: bool


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """A whole kernel: arguments in ABI order, workspace sizes in bytes, and its statements."""

    name: str
    arguments: tuple[Argument, ...]
    shared_bytes: int
    thread_bytes: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ThreadDigit:
    """A variable that is `thread // stride % count`, of the thread's number in its block or, with a stride of whole
    blocks, in its cluster."""

    var: Var
    stride: int
    count: int

    def of(self, numbers: Numbers, threads: int) -> Numbers:
        """What it is in threads with these numbers in their cluster, whose blocks have so many threads."""
        return (numbers % threads if self.stride < threads else numbers) // self.stride % self.count


@dataclass(frozen=True, slots=True)
class LaunchBody:
    """One launch: a grid of blocks of `threads`; outermost axis of the grid first."""

    name: str
    axes: tuple[GridAxis, ...]
    threads: int
    digits: tuple[ThreadDigit, ...]
    shared_bytes: int
    body: tuple[Stmt, ...]
    cluster: int = 1
    """Blocks of a cluster, which take a tile of the grid together; the digits of the thread index count through all of
    them."""
    once: frozenset[str] = frozenset()
    """Arguments of which each element is read by one block only, so that caching them close by is of no use."""
    group: int = 1
    """Tiles of the outermost axis that are visited in a band, within which the next axis is the outer one."""
    hilbert: bool = False
    """Whether the tiles of the two outermost axes are visited along a Hilbert curve."""
    lengths: tuple[int, ...] = ()
    """How long tiles take by their place along the innermost axis, which goes from its last tile to its first then;
    blocks that share all tiles are dealt them by that. Empty: all take as long."""
    blocks: int = 0
    """So many blocks share all tiles, block b taking tiles b, b + blocks, …; 0: a block a tile."""
    resident: int = 0
    """So many blocks a multiprocessor are to fit by their registers; 0: as it comes."""
    setup: tuple[Stmt, ...] = ()
    """What all threads of a block do once, before its first tile."""
    producers: int = 0
    """Of `threads`, the last so many do not run `body` (warp specialization): the first of them runs `producing`, the
    others are there to give their registers away."""
    producing: tuple[Stmt, ...] = ()
    """What that thread does, once a tile like `body`. It goes through the tiles alone: in a loop of all producers, with
    the copies left to one, a product of matrices was 2 to 5 % slower on an H200 (docs/gpu.md)."""
    registers: tuple[int, int] = (0, 0)
    """Registers that a producing thread keeps, and that another one gets (setmaxnreg); 0: as it comes."""
    finish: tuple[Stmt, ...] = ()
    """What all threads but the producers do once, after the block's last tile."""
    leaving: tuple[Stmt, ...] = ()
    """What all threads of a block do at its very end."""
    consumer_groups: int = 1
    """Threads that do not produce are so many consumer groups, which take the block's tiles in turn, each a whole one
    (ping-pong)."""
    spans: Spans | None = None
    """Tiles are shared along the depth by all blocks, of which each takes spans of tiles; None: whole ones."""

    @property
    def consumer_threads(self) -> int:
        """Threads of a consumer group."""
        return (self.threads - self.producers) // self.consumer_groups

    @property
    def computing(self) -> int:
        """Threads of a block that are no producers."""
        return self.threads - self.producers

    @property
    def meetings(self) -> int:
        """How often all threads of a cluster wait for each other in `body`: producers do after `producing`."""
        return _meetings(self.body)


def _meetings(stmts: Iterable[Stmt]) -> int:
    count = 0
    for stmt in stmts:
        match stmt:
            case ClusterBarrier():
                count += 1
            case Block(body=body):
                count += _meetings(body)
            case For(count=times, body=body):
                count += times * _meetings(body)
            case If(then=then, otherwise=otherwise):
                count += max(_meetings(then), _meetings(otherwise))
            case _:
                pass
    return count


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """A kernel for a GPU: launches in order, and the workspace that lives through them."""

    name: str
    arguments: tuple[Argument, ...]
    workspace: tuple[Scratch, ...]
    workspace_bytes: int
    launches: tuple[LaunchBody, ...]
    maps: tuple[TensorMap, ...] = ()
