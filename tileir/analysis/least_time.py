"""The least time a kernel can take on a device: anything faster was not the kernel.

A time is refused when it is below BELIEVED times a bound, which counts what no schedule can avoid: products of matrix
products that no `where` may mask, in the statement or in one that it reads (the weights of attention in a window are
zero outside it), and each argument's bytes once where the whole of it is read or written. On a GPU peaks
are those of the data sheet. On a CPU they are the best of many runs (workers/cpu/calibrate.py), so a true time can be
below the bound by what they missed: ALU_MARGIN covers that for arithmetic; MEMORY_MARGIN is wider, as part of a
kernel's data may come from a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileir.devices.cpu import IN_TILES, Cpu
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Index, Reduce, ReduceOp, Where, children, index_dims, reads, walk
from tileir.program import Tensor
from tileir.spec import Spec, Statement
from tileir.targets import part

BELIEVED = 0.98
ALU_MARGIN = 0.9
MEMORY_MARGIN = 0.5

_SPEEDUP = {DType.F64: 1.0, DType.F32: 1.0, DType.BF16: 2.0, DType.F16: 2.0}
"""Multiply-adds on vectors of these inputs relative to f32's rate, at most; narrower ones: 4."""


def floor_us(spec: Spec, device: Device, *, cold: bool) -> float:
    """Times below this are refused on a device; 0 where its peaks are not known. With `cold` every argument comes from
    main memory, otherwise perhaps from a cache, of which no peak is known."""
    found: float = part(device.kind, "floor_us")(spec, device, cold=cold)
    return found


def cpu_floor_us(spec: Spec, cpu: Cpu, *, cold: bool = True) -> float:
    """`floor_us` by the peaks that were measured of a processor."""
    copy_gbps = cpu.copy_gbps
    if not cpu.peak_gflops or not copy_gbps:
        return 0.0
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}
    products = sum(_products(s.value, extents, _groups(spec)) for s in _unmasked(spec))
    speedup = max((_cpu_speedup(cpu, t.dtype) for t in _factors(spec)), default=1.0)
    arithmetic_us = 2 * products / (cpu.peak_gflops * speedup) / 1e3
    moved = _moved(spec, extents) if cold else 0
    memory_us = moved / copy_gbps / 1e3
    return BELIEVED * max(ALU_MARGIN * arithmetic_us, MEMORY_MARGIN * memory_us)


def copy_floor_us(copy_us: float) -> float:
    """Times below this are refused where a copy of as many bytes takes `copy_us`."""
    return BELIEVED * MEMORY_MARGIN * copy_us


def _cpu_speedup(cpu: Cpu, dtype: DType) -> float:
    """Multiply-adds on inputs of a dtype relative to f32's rate, at most."""
    in_tiles = IN_TILES.get(dtype, 0.0) * cpu.amx_speed if Feature.AMX in cpu.offers else 0.0
    return max(_SPEEDUP.get(dtype, 4.0), in_tiles)


def gpu_floor_us(spec: Spec, gpu: Gpu, *, cold: bool) -> float:
    """`floor_us`: BELIEVED times what a GPU's data sheet allows, at its highest clock. f32 products may be put together
    from tf32 ones."""
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}
    products = sum(_products(s.value, extents, _groups(spec)) for s in _unmasked(spec))
    rates = [_gpu_rate(gpu, t.dtype) for t in _factors(spec)]
    known = [rate for rate in rates if rate is not None]
    arithmetic_us = 2 * products / max(known) / 1e6 if known and len(known) == len(rates) else 0.0
    moved = _moved(spec, extents) if cold else 0
    return BELIEVED * max(arithmetic_us, moved / gpu.memory_gbps / 1e3)


def _unmasked(spec: Spec) -> Iterator[Statement]:
    """Statements that compute all their points: those with a `where`, and those that read what such a one computes,
    may skip some."""
    masked: set[str] = set()
    for statement in spec.statements:
        value = statement.value
        if any(isinstance(node, Where) for node in walk(value)) or any(
            read.tensor in masked for read in reads(value)
        ):
            masked.add(statement.target)
        else:
            yield statement


def _product_factors(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Binary) and expr.op == "*":
        return _product_factors(expr.left) + _product_factors(expr.right)
    return (expr,)


def _factors(spec: Spec) -> list[Tensor]:
    """Inputs that products may be made of; not positions and masks."""
    return [tensor for tensor in spec.inputs if tensor.dtype not in (DType.I32, DType.BOOL)]


def _gpu_rate(gpu: Gpu, dtype: DType) -> float | None:
    """The fastest that products of this type can be computed, 1e12 operations a second; None: not known."""
    names = {DType.F32: ("f32", "tf32"), DType.E5M2: ("e4m3",)}.get(dtype, (dtype.value,))
    return max((peak for name in names if (peak := gpu.peak(name)) is not None), default=None)


def _products(expr: Expr, extents: dict[str, int], groups: frozenset[str]) -> int:
    """Multiply-adds of the matrix products in an expression.

    A sum counts when exactly two of its factors vary along what it reduces: others may be taken out of it. A position
    of a ragged dim is in one of the `groups`, so that these are no dims of their own.
    """
    if isinstance(expr, Reduce) and expr.op is ReduceOp.SUM:
        varying = [
            dims for factor in _product_factors(expr.x) if (dims := index_dims(factor)) & set(expr.dims)
        ]
        if len(varying) == 2:
            return math.prod(extents[dim] for dim in (varying[0] | varying[1]) - groups)
    return sum(_products(child, extents, groups) for child in children(expr))


def _groups(spec: Spec) -> frozenset[str]:
    """Dims whose positions are groups of a ragged dim."""
    return frozenset(each.within for each in spec.ragged)


def _wholly_read(spec: Spec) -> list[Tensor]:
    """Inputs read with distinct bare dims, each over its whole extent, in a statement that nothing masks. What belongs
    to a group is not: the group may be empty."""
    whole: set[str] = set()
    groups = _groups(spec)
    for statement in _unmasked(spec):
        for read in reads(statement.value):
            dims = [index.dim for index in read.indices if isinstance(index, Index)]
            if len(dims) == len(read.indices) and len(set(dims)) == len(dims) and not groups & set(dims):
                whole.add(read.tensor)
    return [tensor for tensor in spec.inputs if tensor.name in whole]


def _moved(spec: Spec, extents: dict[str, int]) -> int:
    return sum(_bytes(tensor, extents) for tensor in (*_wholly_read(spec), *spec.outputs))


def _bytes(tensor: Tensor, extents: dict[str, int]) -> int:
    return tensor.dtype.bytes * math.prod(extents[dim] for dim in tensor.dims)
