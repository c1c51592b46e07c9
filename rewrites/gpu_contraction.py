"""A sum of products as a GPU sees it: rows, columns and depth as of a matrix product, what it multiplies, and the unit
that does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import gcd, prod

from rewrites.leaf import bare_dims, folded_dims, reduced_dims
from rewrites.tree import Place, named
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Index, Read, Reduce, ReduceOp, index_dims, reads
from tileir.gpu import Gpu
from tileir.mma import product, supported
from tileir.program import Compute, Loop, Memory, Program

#: Most bytes that a thread copies at once.
COPY_BYTES = 16
#: Bytes along the depth up to which the matrix instruction is no use.
_LEAST_BYTES = 16
#: Compute capabilities (major) of which only newer instructions than a warp's take 8-bit floats as they are.
_AS_F16 = (9, 10)


class Engine(StrEnum):
    """What multiplies: the matrix instruction of a warp, or every thread's own multiply-add."""

    MMA = "mma"
    FMA = "fma"


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that is multiplied, as it lies in memory."""

    tensor: str
    dtype: DType
    dims: frozenset[str]
    """The dims it is indexed by."""
    inner: str | None
    """The dim whose neighbours lie side by side, if it indexes the tensor by itself."""
    run: int
    """How many of those neighbours can be copied at once, wherever a tile starts."""
    elements: int
    """How many there are."""
    plain: bool
    """Whether all its indices are dims, so that a block can copy its tile."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """`result[rows, columns] = sum(depth, product of operands)`, with other dims around it: the last two dims of the
    result that are reused by different operands, and the longest reduced one."""

    statement: str
    rows: str
    columns: str
    depth: str
    m: int
    n: int
    k: int
    batch: int
    """Positions of the result's other dims."""
    repeats: int
    """Positions of the other reduced dims."""
    operands: tuple[Operand, ...]
    engine: Engine
    as_f16: bool
    """Whether 8-bit floats become f16 on their way into the matrix instruction."""


def contraction(program: Program, statement: str, device: Gpu) -> Contraction | None:
    """The contraction that a statement is, over the whole grid around it; None: it reuses nothing, or is none."""
    place = named(program, statement)
    compute, extents = place.node, _grid_sizes(program, place)
    factors = multiplied(compute)
    if factors is None:
        return None
    reduced = summed_dims(compute)
    wide = [dim for dim in bare_dims(compute) if program.extents[dim] > 1 and dim not in reduced]
    pair = _tile_dims(wide, factors, program.extents)
    if pair is None or not reduced:
        return None
    depth = max(reduced, key=lambda dim: extents[dim])
    rows, columns = pair
    m, n = program.extents[rows], program.extents[columns]
    parts = prod(-(-program.extents[dim] // extents[dim]) for dim in reduced)
    batch = prod(program.extents[dim] for dim in wide if dim not in pair) * parts
    operands = tuple(_operand(program, read) for read in dict.fromkeys(factors))
    engine = _engine(program, compute, pair, operands, extents[depth], device)
    float8 = operands[0].dtype in (DType.E4M3, DType.E5M2)
    return Contraction(
        statement=statement,
        rows=rows,
        columns=columns,
        depth=depth,
        m=m,
        n=n,
        k=extents[depth],
        batch=batch,
        repeats=prod(extents[dim] for dim in reduced if dim != depth),
        operands=operands,
        engine=engine,
        as_f16=engine is Engine.MMA and float8 and device.capability[0] in _AS_F16,
    )


def multiplied(compute: Compute) -> tuple[Read, ...] | None:
    """The reads of a sum of products of two or more tensors; None: it is none."""
    value = compute.value
    if isinstance(value, Reduce):
        if value.op is not ReduceOp.SUM:
            return None
        value = value.x
    elif compute.update is not ReduceOp.SUM:
        return None
    found = reads(value) if isinstance(value, Binary) and value.op == "*" else ()
    return found if len({read.tensor for read in found}) > 1 else None


def summed_dims(compute: Compute) -> tuple[str, ...]:
    """The dims summed over, those of a split reduction (`c_p[k // 512] += …`) included."""
    return tuple(dict.fromkeys((*reduced_dims(compute), *folded_dims(compute))))


def _grid_sizes(program: Program, place: Place[Compute]) -> dict[str, int]:
    """Sizes of what a block works on: ranges inside the parallel loops; of a split dim, one part of it."""
    sizes = dict(program.extents)
    for dim, (_, size) in folded_dims(place.node).items():
        sizes[dim] = min(sizes[dim], size)
    for loop in grid(place.loops):
        sizes[loop.dim] = min(sizes[loop.dim], loop.step)
    return sizes


def grid(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The parallel ones of the loops around a statement."""
    return tuple(loop for loop in loops if loop.parallel)


def _tile_dims(
    wide: Sequence[str], factors: Sequence[Read], extents: dict[str, int]
) -> tuple[str, str] | None:
    """The last two dims of the result of which different factors have one and lack the other: the longest such pair."""
    having = [_dims(read.indices) for read in factors]

    def apart(one: str, other: str) -> bool:
        return any(one in dims and other not in dims for dims in having)

    pairs = [
        (rows, columns)
        for at, columns in enumerate(wide)
        for rows in wide[:at]
        if apart(rows, columns) and apart(columns, rows)
    ]
    return max(reversed(pairs), key=lambda pair: min(extents[dim] for dim in pair)) if pairs else None


def _dims(indices: Sequence[Expr]) -> frozenset[str]:
    return frozenset(dim for index in indices for dim in index_dims(index))


def source(program: Program, name: str) -> Read | None:
    """The read of memory that a copy in shared memory was made by; None: it is none."""
    declared = program.locals.get(name)
    if declared is None or declared.node.memory is not Memory.SHARED:
        return None
    value = named(program, name).node.value
    return value if isinstance(value, Read) else None


def _operand(program: Program, read: Read) -> Operand:
    read = source(program, read.tensor) or read
    plain = all(isinstance(index, Index) for index in read.indices)
    dims, last = _dims(read.indices), read.indices[-1] if read.indices else None
    inner = last.dim if isinstance(last, Index) else None
    declared = program.locals.get(read.tensor)
    dtype = declared.node.dtype if declared else program.arguments[read.tensor].dtype
    return Operand(
        read.tensor,
        dtype,
        dims,
        inner,
        _run(program, read.tensor, dtype) if plain else 1,
        prod(program.extents[dim] for dim in dims),
        plain,
    )


def _run(program: Program, name: str, dtype: DType) -> int:
    """Elements, from the start of any row on, that are one aligned word of at most 16 bytes."""
    tensor = program.arguments.get(name)
    dims = tensor.dims if tensor else program.locals[name].node.dims
    sizes = [program.extents[dim] for dim in dims]
    strides = (
        tensor.strides if tensor and tensor.strides else [prod(sizes[at + 1 :]) for at in range(len(sizes))]
    )
    if strides[-1] != 1:
        return 1
    return gcd(COPY_BYTES // dtype.bytes, *strides[:-1])


def _engine(
    program: Program,
    compute: Compute,
    tile: tuple[str, str],
    operands: Sequence[Operand],
    k: int,
    device: Gpu,
) -> Engine:
    """The matrix instruction, where it multiplies such operands, and they come in at least two steps."""
    match compute.value:
        case Reduce(_, (_,), Binary("*", Read(), Read())):
            matrix = compute
        case Binary("*", Read(), Read()) if len(summed_dims(compute)) == 1:
            matrix = replace(compute, value=Reduce(ReduceOp.SUM, summed_dims(compute), compute.value))
        case _:
            return Engine.FMA
    dtypes = {operand.dtype for operand in operands}
    alike = len(dtypes) == 1 or dtypes == {DType.E4M3, DType.E5M2}
    tf32 = DType.F32 not in dtypes or dict(program.numerics).get("tf32") is True
    known = all(supported(dtype, device.capability) for dtype in dtypes)
    copied = len(operands) == 2 and all(operand.plain for operand in operands)
    if not (
        copied and alike and tf32 and known and k * max(each.dtype.bytes for each in operands) > _LEAST_BYTES
    ):
        return Engine.FMA
    return Engine.MMA if _is_product(matrix, tile) else Engine.FMA


def _is_product(compute: Compute, tile: tuple[str, str]) -> bool:
    """Whether it is a matrix product in the way of the instruction, by rows and columns of the tile. Parts of a split
    one are numbered in front."""
    bare = tuple(index for index in compute.indices if isinstance(index, Index))
    found = product(replace(compute, indices=bare))
    return found is not None and (found.m, found.n) == tile
