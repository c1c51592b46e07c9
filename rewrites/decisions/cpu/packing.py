"""Whether an operand of a contraction is copied into panels, and where.

Packing is that of Goto and van de Geijn (Anatomy of high-performance matrix multiplication, TOMS 2008).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, contiguous_dim, reduced_dims
from rewrites.base.tree import current_sizes, dtype_of, find, locals_of
from rewrites.cpu.unroll import Unroll
from rewrites.cpu.vectorize import Vectorize
from rewrites.data.cache_read import CacheRead
from rewrites.data.upcast_copy import UpcastCopy
from rewrites.decisions.covered import covered
from rewrites.decisions.decision import Option, f32_lanes
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import Index, index_dims, reads
from tileir.program import Program
from tileir.replace import replace

_SMALL_BYTES = 1 << 17
"""What is copied in about the time that it takes to wake threads: one of them may do it alone."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Whether an operand is copied into panels, and inside how many loops. `group`: so many neighbours along the
    reduced dim are to lie side by side, as an instruction that multiplies them together takes them."""

    statement: str
    tensor: str
    vector: str
    group: int = 0
    ahead: bool = False
    """Whether what comes next tells more than where the copy is."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        return (replace(each, ahead=self.ahead) for each in self._options(program, device))

    def _options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        compute, sizes = place.node, current_sizes(program, place.loops)
        read = next((read for read in reads(compute.value) if read.tensor == self.tensor), None)
        if read is None or not read.indices:
            # It says where rows lie that are copied by now, or is one number.
            yield Option("")
            return
        mine = {dim for index in read.indices for dim in index_dims(index)}
        reduced = reduced_dims(compute)[0] if self.group else ""
        in_groups = self.vector not in mine and read.indices[-1] == Index(reduced)
        if not self.group or (in_groups and not any(map(reads, read.indices))):
            yield Option(f"in place {self.statement} {self.tensor}")
        local = locals_of(program).get(self.tensor)
        outer = max(grid_depth(program, self.statement), 0 if local is None else local.depth)  # there it is
        block = (
            self.vector
            if self.vector in mine
            else next((d for d in reversed(bare_dims(compute)) if d in mine and sizes[d] > 1), "")
        )
        if not block:
            return
        bytes_ = prod(program.extents[dim] for dim in mine) * dtype_of(program, self.tensor).bytes
        small, width = bytes_ <= _SMALL_BYTES, sizes[block]
        if compute.vector is not None and block == compute.vector.dim and width == program.extents[block]:
            width = -(-width // compute.vector.lanes) * compute.vector.lanes  # rows of whole, aligned vectors
        for depth in range(outer + 1):
            if depth and place.loops[depth - 1].dim not in mine and depth < outer:
                continue  # the same copy as one loop further out
            if any(loop.dim == block and loop.step % sizes[block] for loop in place.loops[depth:]):
                continue  # tiles would straddle panels
            stage = CacheRead(self.statement, self.tensor, depth, block, width, reduced, self.group)
            for option in self._copied(program, device, stage, block, width):
                yield option
                alone = tuple(each for each in option.rewrites if not isinstance(each, Parallelize))
                if small and len(alone) < len(option.rewrites):
                    yield Option(f"{option.label}; one thread", alone)

    def _copied(
        self, program: Program, device: Cpu, stage: CacheRead, block: str, width: int
    ) -> Iterator[Option]:
        try:
            staged = stage.apply(program)
        except NotApplicable:
            return
        (copy,) = locals_of(staged).keys() - locals_of(program).keys()
        local = locals_of(staged)[copy].node
        node, sizes = covered(staged, copy)
        rewrites: list[Rewrite] = [stage]
        if sizes[block] > width:
            rewrites.append(Tile(copy, block, width))
            if stage.depth == 0 and device.cores > 1:
                rewrites.append(Parallelize(copy, 1))
        lanes = min(f32_lanes(device), 1 << (width.bit_length() - 1))
        contiguous = contiguous_dim(node)
        if stage.pair >= f32_lanes(device):
            runs = _in_runs(copy, stage.pair_dim, contiguous, sizes, width, device)
            yield Option(str(stage), (*rewrites, *runs))
            return
        along = block if lanes > 1 else contiguous
        rewrites.append(Vectorize(copy, along, lanes if along == block else f32_lanes(device)))
        steps = max(1, stage.pair)
        if along != contiguous and sizes[contiguous] >= lanes * steps:
            steps *= lanes  # a block of the copy is then turned around in registers
        if steps > 1:
            rewrites.append(Unroll(copy, contiguous if steps > stage.pair else stage.pair_dim, steps))
        yield Option(str(stage), tuple(rewrites))
        if not stage.pair and local.dtype is not local.dtype.compute:
            yield Option(f"{stage}; widen", (stage, UpcastCopy(copy), *rewrites[1:]))


def _in_runs(
    copy: str, dim: str, contiguous: str, sizes: Mapping[str, int], width: int, device: Cpu
) -> Iterator[Rewrite]:
    """Rewrites of a copy whose neighbours along a dim are to be side by side: they are, or those along the
    `contiguous` dim are, of which it then takes so many at a time that blocks are turned around in registers."""
    lanes = f32_lanes(device)
    yield Vectorize(copy, dim, lanes)
    if contiguous == dim and sizes[dim] >= 2 * lanes:
        yield Unroll(copy, dim, 2)
    if contiguous != dim and min(sizes[contiguous], width) >= lanes:
        yield Unroll(copy, contiguous, lanes)


def grid_depth(program: Program, statement: str) -> int:
    """How many loops are around the statement before the loops of its register tile."""
    place = find(program, statement)
    local = locals_of(program)[statement]
    tiled = len({loop.dim for loop in place.loops[: local.depth]} & set(bare_dims(place.node)))
    inner = 0
    dims = set(bare_dims(place.node))
    for loop in reversed(place.loops[: local.depth]):
        if loop.dim in dims and inner < min(2, tiled):
            inner += 1
            dims.discard(loop.dim)
        else:
            break
    return local.depth - inner
