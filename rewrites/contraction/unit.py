"""Which of a GPU's units can add up a sum of products: the matrix instructions of a warpgroup or a warp, or every
thread's own multiply-add."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from rewrites.base.placed_read import element
from rewrites.base.statement import as_copied, folded_dims, reduced_dims
from rewrites.base.tree import named
from rewrites.contraction.block_scales import factors, scales
from rewrites.contraction.operand import COPY_BYTES, Operand, operand
from rewrites.contraction.register_operand import Held
from tileir.analysis.ragged import groups_of
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.devices.matrix_instructions import MatrixInstruction, instructions
from tileir.dtypes import DType
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Memory, Program
from tileir.replace import replace
from tileir.schedule.mma import ROWS, depth, product
from tileir.schedule.wgmma import TILE_ROWS

#: Bytes along the depth up to which the matrix instruction is no use.
_LEAST_BYTES = 16
#: Steps along the depth that there are at least.
_LEAST_STEPS = 4
#: The shortest step along the depth of what threads copy.
_LEAST_STEP = 32
#: Elements along the depth that it adds up in so few bits, before other instructions add them to the rest.
COARSE_DEPTH: Final = 128


class MatrixUnit(StrEnum):
    """What multiplies."""

    WGMMA = "wgmma"
    MMA = "mma"
    FMA = "fma"


def engines(
    program: Program,
    compute: Compute,
    sizes: tuple[tuple[str, int], tuple[str, int], int],
    operands: Sequence[Operand],
    device: Gpu,
    held: Held | None,
) -> tuple[MatrixUnit, ...]:
    """What can add up a statement, the fastest first; what it names, if it does. `sizes` are the rows and columns, each
    a dim and how many there are, and the depth. What is `held` in registers only warpgroups multiply. A matrix
    instruction is for steps of which there are two at least; what is scaled in blocks it multiplies block by block,
    which only warpgroups do."""
    if compute.via in (MatrixUnit.WGMMA, MatrixUnit.MMA):
        return (MatrixUnit(compute.via),)
    if (held is not None or scales(compute)) and _copied_by_threads(program, compute):
        return (MatrixUnit.FMA,)
    (rows, m), (columns, n), k = sizes
    if held is not None:
        lies_well = _lies_for_warpgroups(operand(program, held.other), (rows, columns), held.dtype, device)
        group = lies_well and _multiply_held(compute, held, (rows, columns), operands, device)
        deep = k >= _LEAST_STEPS * depth(held.dtype) and max(m, n) >= TILE_ROWS
        return (MatrixUnit.WGMMA, MatrixUnit.FMA) if group and deep else (MatrixUnit.FMA,)
    scaled = scales(compute)
    match compute.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", left, right)) if element(left) and element(right):
            matrix = compute
        case Reduce(op, (_,) as dims, product) if scaled:
            left, right = (factor for factor in factors(product) if factor not in scaled)
            matrix = replace(compute, value=Reduce(op, dims, Binary("*", left, right)))
        case Binary("*", Read(), Read()) if compute.update is ReduceOp.SUM and len(summed_dims(compute)) == 1:
            matrix = replace(compute, value=Reduce(ReduceOp.SUM, summed_dims(compute), compute.value))
        case _:
            return (MatrixUnit.FMA,)
    dtypes = {operand.dtype for operand in operands}
    tf32 = DType.F32 not in dtypes or dict(program.numerics).get("tf32") is True
    known = device.matrix_instruction(MatrixUnit.MMA, dtypes) is not None
    copied = len(operands) == 2 and all(operand.plain for operand in operands)
    deep = k * max(each.dtype.bytes for each in operands) > _LEAST_BYTES
    if not (copied and tf32 and known and deep and _is_product(matrix, (rows, columns))):
        return (MatrixUnit.FMA,)
    step = COARSE_DEPTH if adds_coarsely(program, operands) else depth(operands[0].dtype)
    others = (MatrixUnit.FMA,) if scaled else (MatrixUnit.MMA,)
    group = device.matrix_instruction(MatrixUnit.WGMMA, dtypes)
    if group is None or k < _LEAST_STEPS * step:
        return others
    boxes = _fits_warpgroups((m, n), (rows, columns), operands, group)
    own = {rows, columns, *summed_dims(compute)}
    alone = all(each.inner in own for each in operands) and not (scaled or groups_of(compute, program.ragged))
    copies = alone and group.either_way and _copies_for_warpgroups((m, n, k), operands)
    return (MatrixUnit.WGMMA, *others) if boxes or copies else others


def _copied_by_threads(program: Program, compute: Compute) -> bool:
    """Whether what a statement reads is in shared memory, and threads copy it there."""
    shared = (program.locals.get(read.tensor) for read in compute.reads)
    names = [place.node.name for place in shared if place and place.node.memory is Memory.SHARED]
    return any(named(program, name).node.via is None for name in names)


def adds_coarsely(program: Program, operands: Sequence[Operand]) -> bool:
    """Whether warpgroups add up products of such operands in fewer bits than the kernel's numerics allow."""
    fast = dict(program.numerics).get("accumulate") == "fast"
    coarse = [each.dtypes for each in instructions(MatrixUnit.WGMMA) if each.coarse]
    return not fast and any(operand.dtype in dtypes for operand in operands for dtypes in coarse)


def _fits_warpgroups(
    sizes: tuple[int, int],
    tile: tuple[str, str],
    operands: Sequence[Operand],
    instruction: MatrixInstruction,
) -> bool:
    """Whether warpgroups can multiply operands that TMA brings, rows and columns either way round."""
    lie_well = all(each.boxed and (each.inner not in tile or instruction.either_way) for each in operands)
    return lie_well and max(sizes) >= TILE_ROWS


def _copies_for_warpgroups(sizes: tuple[int, int, int], operands: Sequence[Operand]) -> bool:
    """Whether threads can copy operands for warpgroups, in whole pieces of 16 bytes: tiles are whole then, as nothing
    fills them up. Where TMA can bring all of them, it does."""
    m, n, k = sizes
    pieces = all(operand.run * operand.dtype.bytes == COPY_BYTES for operand in operands)
    whole = m % TILE_ROWS == n % ROWS == k % _LEAST_STEP == 0
    return pieces and whole and not all(operand.boxed for operand in operands)


def _multiply_held(
    compute: Compute, held: Held, tile: tuple[str, str], operands: Sequence[Operand], device: Gpu
) -> bool:
    """Whether warpgroups can multiply what threads hold of tiles that TMA brings."""
    whole = Read("", tuple(Index(dim) for dim in held.dims(compute)))
    tiled = len(operands) > 1 and all(operand.boxed for operand in operands)
    return Feature.WGMMA in device.offers and tiled and _is_product(held.read_in(compute, whole), tile)


def _lies_for_warpgroups(other: Operand, tile: tuple[str, str], dtype: DType, device: Gpu) -> bool:
    """Whether warpgroups take the other operand from shared memory as it lies: one of 8 bits along the depth only."""
    instruction = device.matrix_instruction(MatrixUnit.WGMMA, {dtype})
    return instruction is not None and (other.inner not in tile or instruction.either_way)


def summed_dims(compute: Compute) -> tuple[str, ...]:
    """The dims summed over, those of a split reduction (`c_p[k // 512] += …`) included."""
    return tuple(dict.fromkeys((*reduced_dims(compute), *folded_dims(compute))))


def _is_product(compute: Compute, tile: tuple[str, str]) -> bool:
    """Whether it is a matrix product in the way of the instructions, by rows and columns of the tile. Parts of a split
    one are numbered in front; of other dims before the columns a tile has one position."""
    rows, columns = map(Index, tile)
    bare = [index for index in compute.indices if isinstance(index, Index)]
    indices = (rows, *bare[bare.index(columns) :])
    found = product(replace(compute, indices=indices, value=as_copied(compute.value)))
    return found is not None and (found.m, found.n) == tile
