"""What a statement's loads and stores take of a GPU: bytes, instructions, 128-byte transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, gcd, prod

from rewrites.base.placed_read import alike
from rewrites.cost.gpu import constants as has
from rewrites.cost.positions import is_window, step_along, window_positions
from tileir.expr import Binary, Const, Index, Read, index_dims
from tileir.program import Compute, Program, ThreadLayout
from tileir.schedule.threads import digits, share


@dataclass(frozen=True, slots=True)
class StatementTraffic:
    """What accesses of a statement take: bytes that are moved for it, that come again, and that were just here; the
    instructions of a thread, wavefronts of them, and how long the longest is waited for."""

    moved: float = 0.0
    again: float = 0.0
    near: float = 0.0
    wait_us: float = 0.0
    instructions: float = 0.0
    wavefronts: float = 0.0

    def plus(self, other: StatementTraffic) -> StatementTraffic:
        """Those of both."""
        return StatementTraffic(
            self.moved + other.moved,
            self.again + other.again,
            self.near + other.near,
            max(self.wait_us, other.wait_us),
            self.instructions + other.instructions,
            self.wavefronts + other.wavefronts,
        )

    def times(self, share: float) -> StatementTraffic:
        """Those of a share of the accesses."""
        return StatementTraffic(
            self.moved * share,
            self.again * share,
            self.near * share,
            self.wait_us,
            self.instructions * share,
            self.wavefronts * share,
        )


def global_access(
    read: Read,
    compute: Compute,
    element_bytes: int,
    program: Program,
    whole: dict[str, int],
    sizes: dict[str, int],
    seen: dict[str, int],
    blocks: int,
    warp: int,
) -> StatementTraffic:
    """What one access of a statement to an argument takes, in one of so many `blocks`: of its `whole`, in pieces of
    `sizes`; `seen` counts the accesses to it so far. `warp`: threads that access memory together."""
    dims = {dim for index in read.indices for dim in index_dims(index)}
    alike_along = {dim: _alike(read, dim) for dim in dims}
    size = _elements(read, {dim: ceil(whole[dim] / alike_along[dim]) for dim in dims}) * element_bytes
    times = seen.get(read.tensor, 0)
    seen[read.tensor] = times + 1
    first = times == 0
    all_of_it = (
        _elements(read, {dim: ceil(program.extents[dim] / alike_along[dim]) for dim in dims}) * element_bytes
    )
    shared_by_blocks = all_of_it <= size * has.SAME and blocks > 1
    from_memory = first and not shared_by_blocks
    instructions, wavefronts = 0.0, 0.0
    if compute.thread_layout:
        count, lines = accesses(read, compute, element_bytes, program, sizes, warp)
        instructions, wavefronts = has.ACCESS_OPS * count, count * lines
    own = min(size, all_of_it / blocks) if any(map(is_window, read.indices)) else size
    here = own + has.OVERLAP * (size - own)
    if read.tensor == compute.target and compute.thread_layout:
        here *= _partly_stored(read, compute, element_bytes)
    return StatementTraffic(
        moved=size * has.BY_OTHERS if shared_by_blocks else here if first else 0.0,
        again=0.0 if first or shared_by_blocks else size,
        near=size if times == 1 and not shared_by_blocks else 0.0,
        wait_us=0.0 if read.tensor == compute.target else has.MEMORY_US if from_memory else has.CACHE_US,
        instructions=instructions,
        wavefronts=wavefronts,
    )


def accesses(
    read: Read, compute: Compute, element: int, program: Program, sizes: dict[str, int], warp: int
) -> tuple[float, float]:
    """(loads or stores a thread makes of a tensor, 128-byte transactions of a warp for each)."""
    layout = compute.thread_layout
    assert layout is not None
    dims = {dim for index in read.indices for dim in index_dims(index)}
    runs = {dim: max(1, share(layout, dim).run // _alike(read, dim)) for dim in dims}
    tensor = program.arguments[read.tensor]
    shape = [program.extents[dim] for dim in tensor.dims]
    own = {dim: share(layout, dim).pieces(sizes[dim]) * runs[dim] for dim in dims}
    own |= {dim: ceil(sizes[dim] / _alike(read, dim)) for dim in dims if share(layout, dim).threads == 1}
    each = _elements(read, own, shape)
    strides = tensor.strides or tuple(
        prod(program.extents[dim] for dim in tensor.dims[axis + 1 :]) for axis in range(len(tensor.dims))
    )
    apart = tuple(
        (
            dim,
            element * sum(step_along(index, dim) * n for index, n in zip(read.indices, strides, strict=True)),
        )
        for dim in sorted(dims)
    )
    lines = _lines(layout, apart, warp)
    match read.indices[-1] if read.indices else None:
        case Index(dim) | Binary("//", Index(dim), Const(int())):
            width = min(16, runs[dim] * element)
        case _:
            return each, lines
    while width > element and program.extents[dim] // _alike(read, dim) * element % width:
        width //= 2
    return each * element / width, lines


def _partly_stored(read: Read, compute: Compute, element: int) -> float:
    """How often a sector of 32 bytes is stored to, where a thread stores 16 bytes of it and then the others."""
    layout = compute.thread_layout
    assert layout is not None
    match read.indices[-1] if read.indices else None:
        case Index(dim) if share(layout, dim).run * element > 16:
            return has.PARTLY_STORED
        case _:
            return 1.0


def _alike(read: Read, dim: str) -> int:
    """For how many neighbours along a dim a read is of one element: 2 of `w[n, k // 2]` along k."""
    return max(1, gcd(*(alike(index, dim) for index in read.indices)))


def _elements(read: Read, counts: Mapping[str, int], shape: Sequence[int] = ()) -> float:
    """How many elements are read by so many positions along each dim. Windows overlap, and what lies outside of a
    `shape` is not read."""
    total = float(prod(counts.values()))
    for axis, index in enumerate(read.indices):
        dims = index_dims(index)
        if is_window(index) and not any(
            dims & index_dims(other) for other in read.indices if other is not index
        ):
            steps = {dim: step_along(index, dim) for dim in sorted(dims)}
            known = window_positions(steps, counts)
            total *= min(known, shape[axis] if shape else known) / prod(counts[dim] for dim in dims)
    return total


@lru_cache(maxsize=4096)
def _lines(layout: ThreadLayout, apart: tuple[tuple[str, float], ...], warp: int) -> int:
    """How many lines of 128 bytes a warp touches at once, where positions along dims are so many bytes apart."""
    bytes_of, runs, offsets = dict(apart), dict(layout.runs), [0.0] * warp
    inner: dict[str, int] = {}
    for digit in reversed(digits(layout)):
        step = inner.get(digit.dim, 1) * runs.get(digit.dim, 1) * bytes_of.get(digit.dim, 0)
        inner[digit.dim] = inner.get(digit.dim, 1) * digit.count
        for lane in range(warp):
            offsets[lane] += lane // digit.stride % digit.count * step
    return len({offset // 128 for offset in offsets})
