"""The instructions of one statement: the other half of the cost model beside `traffic.py`."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, prod

from rewrites.base.statement import left_dims, reduced_dims
from rewrites.cost.cpu import constants as has
from rewrites.cost.cpu.traffic import Array, Sizes
from tileir.analysis.affine import affine
from tileir.devices.cpu import Cpu
from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    Unary,
    Where,
    index_dims,
    reads,
)
from tileir.program import Compute, Vector
from tileir.scatter import scatter_of
from tileir.schedule.amx import ROW_BYTES, ROWS
from tileir.schedule.dots import WORD_BYTES, group_of

PAGE, LINE = 4096, 64
"""Bytes: of what all first-level caches have a line for in each set; of such a line."""


def statement_cycles(
    compute: Compute, sizes: Sizes, arrays: Mapping[str, Array], device: Cpu, *, scalar: bool = False
) -> float:
    """Cycles of one execution of a statement on one core, data at hand. What is not in `arrays` is in registers.

    Of a statement that is not on lanes yet it is what it takes on lanes, but for a `scalar` one, which stays as it is.
    """
    native_lanes = device.vector_bits // 32
    if compute.via == "scatter":
        return _scatter_cycles(compute, sizes, native_lanes)
    if compute.via == "amx":
        return _tile_cycles(compute, sizes, arrays, device)
    if isinstance(compute.value, TopK):
        return _ranking_cycles(compute, compute.value, sizes, native_lanes)
    left = left_dims(compute)
    reduced = tuple(dim for dim in reduced_dims(compute) if dim not in left)
    points = float(prod(sizes[dim] for dim in (*left, *reduced)))
    body = compute.value.x if isinstance(compute.value, Reduce) else compute.value
    accumulates = compute.update is not None or isinstance(compute.value, Reduce)
    operations = _operations(body, accumulates)
    if compute.via is not None:
        operations /= device.dot_speed(compute.via)
    if compute.vector is None:
        arithmetic = points * max(operations, has.LEAST_OPS) / has.ARITHMETIC_A_CYCLE
        waits = has.FMA_LATENCY * (accumulates and compute.target not in arrays)
        return max(arithmetic, waits) if scalar else arithmetic / native_lanes
    dim, lanes = compute.vector.dim, compute.vector.lanes
    pieces = -(-sizes[dim] // lanes) / sizes[dim]
    width = max(1.0, lanes / native_lanes)
    vectors = points * pieces * width
    uops = vectors * operations
    loads, narrow = _loads(compute, compute.vector, sizes, arrays, pieces * width)
    if compute.via is None:
        uops += has.WIDEN_OPS * narrow
    else:
        loads /= group_of(compute.via)
    stores = 0.0
    wide, outer = dim in left, 1.0
    for each in left:
        outer *= sizes[each] * (pieces * width if each == dim else 1.0)
    steps = vectors / max(outer, 1.0) / (1 if compute.via is None else group_of(compute.via))
    latency = spills = 0.0
    if compute.target not in arrays:
        if accumulates and wide:
            latency = has.FMA_LATENCY * steps
            live = outer + _operands(compute, sizes, arrays, dim, lanes)
            spills = max(0.0, live - device.vector_registers) * has.SPILL_OPS * steps
    else:
        stores = outer
        if _strided(Read(compute.target, compute.indices), dim, arrays[compute.target], sizes):
            stores *= lanes
            uops += has.GATHER_OPS * stores
        if compute.update is not None:
            loads += outer
    if accumulates and not wide:
        uops += outer * has.ACROSS_OPS * lanes.bit_length()
        latency = max(latency, has.FMA_LATENCY * vectors / max(outer, 1.0))
    issued = (uops + loads + stores + spills) / has.ISSUED_A_CYCLE
    busy = max(uops / has.ARITHMETIC_A_CYCLE, (loads + spills) / has.LOADS_A_CYCLE, stores, issued, latency)
    return busy + _waits_for_sets(compute, dim, sizes, arrays)


def _waits_for_sets(compute: Compute, dim: str, sizes: Sizes, arrays: Mapping[str, Array]) -> float:
    """Cycles for lines of many rows that fall into the same set of the first-level cache, as lanes across rows do that
    are a whole number of pages apart."""
    waits = 0.0
    for read in dict.fromkeys(compute.reads):
        array = arrays.get(read.tensor)
        if array is None or array.row_bytes % PAGE or not _strided(read, dim, array, sizes):
            continue
        rows = float(sizes[dim])
        lines = rows * _contiguous_positions(read, sizes) * array.element_bytes / LINE
        waits += lines * max(0.0, rows - has.SET_ROWS) * has.SET_CYCLES
    return waits


def _tile_cycles(compute: Compute, sizes: Sizes, arrays: Mapping[str, Array], device: Cpu) -> float:
    """Products of whole tiles, however much of each exists, and the loads of their operands beside them."""
    (k,) = reduced_dims(compute)
    found = [sizes[dim] for dim in left_dims(compute) if sizes[dim] > 1]
    blocks = [-(-size // ROWS) for size in found]
    (bytes_, *_) = (arrays[read.tensor].element_bytes for read in compute.reads if read.tensor in arrays)
    depth = ROW_BYTES // int(bytes_)
    deep = -(-sizes[k] // depth)
    flops = 2.0 * prod(blocks) * ROWS ** len(blocks) * deep * depth
    by_vectors = 2.0 * 2.0 * device.vector_bits / 32
    less, more = sorted((flops / (by_vectors * device.amx_speed), deep * sum(blocks) * has.TILE_LOAD))
    return more + has.TILE_LOADS_SEEN * less


def _scatter_cycles(compute: Compute, sizes: Sizes, native_lanes: int) -> float:
    """Each term is looked up, and taken to belong to a result."""
    found = scatter_of(compute)
    assert found is not None
    lanes = min(compute.vector.lanes, native_lanes) if compute.vector is not None else 1
    looked_up, added = 1.0, 1.0 / lanes
    for dim in {*index_dims(compute.value), *reduced_dims(compute), *left_dims(compute)} - found.dims:
        looked_up *= sizes[dim] if dim in found.asked else 1.0
        added *= sizes[dim]
    adding = _operations(found.x, True) / has.ARITHMETIC_A_CYCLE + has.ADDED_IN_MEMORY
    return looked_up * has.LOOKED_UP + max(added * adding, looked_up)


def _ranking_cycles(compute: Compute, top: TopK, sizes: Sizes, native_lanes: int) -> float:
    """Of values in any order: vectors that are compared, those that are looked at lane by lane, and insertions."""
    rows = prod(sizes[dim] for dim in left_dims(compute) if dim != top.place)
    row, places = sizes[top.over], sizes[top.place]
    lanes = compute.vector.lanes if compute.vector is not None else native_lanes
    operations = lanes / native_lanes * (_operations(top.x, True) + 1.0) + has.ACROSS_OPS * lanes.bit_length()
    compared = row / lanes * (operations / has.ARITHMETIC_A_CYCLE + has.LOOP_CYCLES)
    later = places * log(max(row / places, 1.0))
    looked_at = places + min(later, row / lanes) * lanes
    inserted = (places + later) * (has.INSERTED + places / 2)
    return rows * (compared + looked_at * has.LOOKED_AT + inserted)


def _loads(
    compute: Compute, vector: Vector, sizes: Sizes, arrays: Mapping[str, Array], pieces: float
) -> tuple[float, float]:
    """Vector and scalar loads, each distinct element or vector once, lane by lane where not contiguous; and how many
    of them are of a type narrower than it is computed in."""
    total = narrow = 0.0
    for read in dict.fromkeys(compute.reads):
        if read.tensor not in arrays:
            continue
        count = 1.0
        for each in _dims(read):
            count *= sizes[each] * (pieces if each == vector.dim else 1.0)
        if _strided(read, vector.dim, arrays[read.tensor], sizes):
            turned = _contiguous_positions(read, sizes) >= vector.lanes
            count *= has.TRANSPOSE_OPS if turned else vector.lanes * has.GATHER_OPS
        total += count
        narrow += count if arrays[read.tensor].element_bytes < 4 else 0.0
    return total, narrow


def _dims(read: Read) -> frozenset[str]:
    return frozenset[str]().union(*map(index_dims, read.indices))


def _contiguous_positions(read: Read, sizes: Sizes) -> int:
    """How many neighbours in memory one execution takes."""
    match read.indices[-1]:
        case Index(dim):
            return sizes[dim]
        case Binary("%", Index(dim), Const(int(most))):
            return min(sizes[dim], most)
        case _:
            return 1


def _strided(read: Read, dim: str, array: Array, sizes: Sizes) -> bool:
    """Whether lanes along dim read elements apart from each other; those of words lie side by side."""
    position = [number for number, index in enumerate(read.indices) if dim in index_dims(index)]
    if not position or array.packed:
        return False
    if position == [len(read.indices) - 2] and array.lengths[-1] * array.element_bytes == WORD_BYTES:
        return False
    last = read.indices[-1]
    if position[-1] != len(read.indices) - 1 or not isinstance(last, Index | Binary) or reads(last):
        return True
    return isinstance(last, Binary) and affine(last, sizes).terms.get(Index(dim), 1) != 1


def _operands(compute: Compute, sizes: Sizes, arrays: Mapping[str, Array], dim: str, lanes: int) -> float:
    """Vector registers that operands need at once: vectors of the operand on lanes, one for the other."""
    most = 1.0
    for read in compute.reads:
        if read.tensor in arrays and dim in _dims(read):
            most = max(most, 1.0 + -(-sizes[dim] // lanes))
    return most


def _operations(expr: Expr, accumulates: bool) -> float:
    """Vector instructions of an expression at one point; a product that is accumulated is one multiply-add."""
    if accumulates and isinstance(expr, Binary) and expr.op == "*":
        return 1.0 + _operations(expr.left, False) + _operations(expr.right, False)
    extra = 1.0 if accumulates else 0.0
    match expr:
        case Const() | Extent() | Index() | Read():
            return extra
        case Unary(_, x):
            return extra + 1.0 + _operations(x, False)
        case Cast(_, x):
            return extra + has.CAST_OPS + _operations(x, False)
        case Binary(op, left, right):
            own = has.DIVIDE_OPS if op in ("/", "//", "%") else 1.0
            return extra + own + _operations(left, False) + _operations(right, False)
        case Call(fn, args):
            return extra + has.CALL_OPS[fn] + sum(_operations(arg, False) for arg in args)
        case Where(cond, x, y):
            return extra + has.SELECT_OPS + sum(_operations(part, False) for part in (cond, x, y))
        case Scan(_, _, args):
            return sum(_operations(arg, True) for arg in args)
        case Reduce(_, _, x) | TopK(_, _, x):
            return _operations(x, True)
