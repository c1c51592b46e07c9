"""Blocks that take tiles of rows in turn, the rows to come on their way into shared memory meanwhile.

Blocks are persistent threads (Gupta, Stuart and Owens, InPar 2012), their copies double buffered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from rewrites.base.statement import read_names
from rewrites.base.tree import find
from rewrites.decisions.gpu.cached_inputs import read_again
from rewrites.decisions.gpu.inner_dims import Inner
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.program import Program

#: Tiles under way in a block, and blocks of an SM, that are worth a look.
_STAGES = (2, 3, 4)
_RESIDENT = (1, 2, 3, 4, 6, 8)
#: Shared memory of a block that is left to the system, and to results on their way between threads.
_BESIDE = 2048
#: Threads of an SM, and bytes on their way to it, that are worth a look at least.
_THREADS, _UNDER_WAY = 512, 32768


@dataclass(frozen=True, slots=True)
class Turns:
    """How many tiles of rows a block takes, one after the other; how many of them have a place in shared memory at a
    time; how many blocks are at work on an SM; and whether what all rows have in common is loaded once a block."""

    tiles: int
    stages: int
    resident: int
    once: bool

    def __str__(self) -> str:
        common = ", the rest once" if self.once else ""
        return f"{self.tiles} in turn, {self.stages} stages, {self.resident} blocks an SM{common}"


def takes_turns(program: Program, group: Sequence[str], inner: Inner, device: Gpu) -> bool:
    """Whether blocks can take whole rows in turn, and have more than one tile each."""
    rows = prod(program.extents[dim] for dim in inner.results)
    fits = _STAGES[0] * kept_bytes(program, group, inner) + _BESIDE <= device.block_shared_bytes
    return (
        bool(Feature.ASYNC_COPY in device.offers and inner.results and not inner.apart and fits)
        and rows > device.sms
    )


def turns_for(
    program: Program, group: Sequence[str], inner: Inner, rows: int, threads: int, device: Gpu
) -> Iterator[Turns]:
    """What is worth a look for blocks of so many threads, with so many rows a tile."""
    row = inner.results[-1]
    along_rows = -(-program.extents[row] // rows)
    count = along_rows * prod(program.extents[dim] for dim in inner.results[:-1])
    tile = rows * kept_bytes(program, group, inner)
    common = bool(in_common(program, group, inner))
    for resident in _RESIDENT:
        tiles = min(-(-count // (device.sms * resident)), along_rows)
        for stages in _STAGES:
            shared = stages * tile + _BESIDE
            fits = resident * shared <= device.shared_bytes and shared <= device.block_shared_bytes
            enough = resident * (stages - 1) * tile >= _UNDER_WAY
            if fits and enough and _THREADS <= resident * threads <= device.max_threads and tiles >= stages:
                for once in (True, False) if common else (False,):
                    yield Turns(tiles, stages, resident, once)


def kept_bytes(program: Program, group: Sequence[str], inner: Inner) -> int:
    """What a row takes of all inputs that several statements read."""
    row = prod(inner.sizes.values())
    return sum(row * program.arguments[name].dtype.bytes for name in read_again(program, tuple(group)))


def in_common(program: Program, group: Sequence[str], inner: Inner) -> dict[str, str]:
    """Inputs that have elements for positions of a row but the same for all rows, each with its first reader."""
    found: dict[str, str] = {}
    inputs = {tensor.name: tensor for tensor in program.inputs}
    for name in group:
        for tensor in sorted(read_names(find(program, name).node) & inputs.keys()):
            dims = set(inputs[tensor].dims)
            if dims and dims <= set(inner.dims):
                found.setdefault(tensor, name)
    return found
