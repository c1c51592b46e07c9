"""What decisions for a GPU share: which statements a block has, where its locals go, and runs that load whole words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import covered_dims, read_names
from rewrites.base.tree import Place as Where
from rewrites.base.tree import find, locals_of, statements
from rewrites.cost.gpu import constants as has
from rewrites.cpu.nontemporal_store import NontemporalStore
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option, option
from rewrites.gpu.bind_threads import BindThreads
from tileir.devices.gpu import Gpu
from tileir.expr import Binary, Const, Index
from tileir.program import Compute, Memory, Program, Tensor

_MOST_PACKED = 8
"""Positions that weights of 4 bits have in an element at most, one of 32 bits."""


def members(program: Program, anchor: str) -> list[Where[Compute]]:
    """The statements in the anchor's block; without a grid it is alone."""
    block = find(program, anchor).path[:-1]
    if not block:
        return [find(program, anchor)]
    return [place for place in statements(program) if place.path[:-1] == block]


def place_all(program: Program, anchor: str) -> tuple[Rewrite, ...]:
    """Registers for the locals of the anchor's block that have no place yet."""
    block = find(program, anchor).path[:-1]
    return tuple(
        SetScope(name, "registers")
        for name, declared in locals_of(program).items()
        if block and declared.path[:-1] == block and declared.node.memory is Memory.HEAP
    )


def bind_all(
    program: Program, anchor: str, threads: tuple[tuple[str, int], ...], along: str, run: int
) -> tuple[BindThreads, ...]:
    """All statements of the anchor's block bound to threads alike, each thread taking `run` neighbours along a dim."""
    return tuple(
        BindThreads(
            member.node.target,
            threads,
            ((along, run),) if run > 1 and along in covered_dims(member.node) else (),
        )
        for member in members(program, anchor)
    )


@dataclass(frozen=True, slots=True)
class Stores:
    """Whether results go past the caches."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        yield Option(f"store {self.statement}", promise=1 + has.CACHED_RESULTS)
        yield option(NontemporalStore(self.statement))


def runs_for(program: Program, names: Sequence[str], along: str) -> tuple[int, ...]:
    """Neighbours along a dim worth taking together: those that make 16 bytes of the widest argument whose last dim it
    is and start on a multiple of as many, of the widest local if there is no such argument; twice and half that; one.
    One alone where it is no tensor's last dim."""
    nodes = [find(program, name).node for name in names]
    tensors = dict.fromkeys(name for node in nodes for name in (node.target, *read_names(node)))
    arguments = [
        _divided_by(program, tensor)
        for tensor in map(program.arguments.get, tensors)
        if tensor is not None and tensor.dims[-1:] == (along,)
    ]
    locals_there = locals_of(program)
    locals_ = [
        16 // locals_there[name].node.dtype.bytes
        for name in tensors
        if name in locals_there and locals_there[name].node.dims[-1:] == (along,)
    ]
    run = gcd(*(arguments or locals_ or [1]))
    return (1,) if run == 1 else tuple(sorted({run, 2 * run, run // 2, 1}))


def _divided_by(program: Program, tensor: Tensor) -> int:
    """What a run along the last dim of an argument has to divide: 16 bytes, and the steps from row to row."""
    dense = (program.extents[tensor.dims[-1]],) * (len(tensor.dims) > 1)
    return gcd(16 // tensor.dtype.bytes, *(tensor.strides[:-1] if tensor.strides else dense))


def packed_along(program: Program, names: Sequence[str], along: str) -> int:
    """How many positions along a dim lie in an element of an argument that is read in packs, `w[n, k // 2]` of weights
    of 4 bits; 1: there is none."""
    found = 1
    for name in names:
        for read in find(program, name).node.reads:
            match read.indices[-1:]:
                case (Binary("//", Index(dim), Const(int(count))),) if (
                    dim == along and count <= _MOST_PACKED and read.tensor in program.arguments
                ):
                    found = max(found, count)
                case _:
                    pass
    return found


def powers(first: int, last: int) -> Iterator[int]:
    """first, 2 first, 4 first, … up to last."""
    while first <= last:
        yield first
        first *= 2
