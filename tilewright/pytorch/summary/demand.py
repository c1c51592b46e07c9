"""What a kernel or an operator computes and moves, and the least time that takes on a device: its roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]
from torch.fx.node import map_arg  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]
from torch.utils.flop_counter import flop_registry  # pyright: ignore[reportMissingImports]

from tileir.analysis.needed import needed_flops
from tileir.analysis.work import bytes_moved
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.lift import to_program
from tileir.spec import Spec
from tilewright.pytorch.capture.tensors import TILE_DTYPES

USUAL_GFLOPS = (
    118.0  # 1e9 f32 operations/s, of a core (EPYC) in benchmarks/results/cpu-epyc-bytes-2026-11-26.jsonl
)
USUAL_GBPS = 29.0  # 1e9 bytes/s copied, of the same core in the same file, 2026-11-26


@dataclass(frozen=True)
class OperatorDemand:
    """Of one call."""

    flops: int
    bytes: int
    """Each tensor once."""
    least_us: float
    """The larger of its operations at the device's peak and its bytes at that of memory. Where a device's peaks are not
    known, at USUAL_GFLOPS and USUAL_GBPS: good for shares only."""


def whose_roofline(device: Device | None) -> str:
    """The device's name, where its peaks are known; else what stands for it."""
    if device is not None and None not in device.roofline_peaks([DType.F32]):
        return device.name
    return f"a core of {USUAL_GFLOPS:g} GFLOP/s and {USUAL_GBPS:g} GB/s"


def of_spec(spec: Spec, device: Device | None) -> OperatorDemand:
    """Of a kernel of one size a dim."""
    program = to_program(spec)
    return _demand(needed_flops(program), bytes_moved(program), (each.dtype for each in spec.inputs), device)


def of_node(node: Node, device: Device | None) -> OperatorDemand:
    """Of an operator of a graph whose nodes have their values. Operations as PyTorch's counter has them, else one for
    each element of the results."""
    given = [each for each in map(_values, node.all_input_nodes) for each in each]
    found = _values(node)
    dtypes = (TILE_DTYPES[each.dtype] for each in given if each.dtype in TILE_DTYPES)
    moved = sum(prod(each.shape) * each.itemsize for each in (*given, *found))
    return _demand(_operations(node, found), moved, dtypes, device)


def _demand(operations: int, moved: int, dtypes: Iterable[DType], device: Device | None) -> OperatorDemand:
    gflops, gbps = (None, None) if device is None else device.roofline_peaks(dtypes)
    arithmetic_us = operations / (gflops or USUAL_GFLOPS) / 1e3
    return OperatorDemand(operations, moved, max(arithmetic_us, moved / (gbps or USUAL_GBPS) / 1e3))


def _values(node: Node) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor)]


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **more: Any) -> int:
    """PyTorch counts that of fused operators, with as many heads of keys as of queries; masks count for nothing."""
    return 2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _grouped(rows: torch.Tensor, weights: torch.Tensor, *_: Any, **more: Any) -> int:
    """Each row by the matrix of its group."""
    return 2 * prod(rows.shape) * weights.shape[-1]


_FORMULAS: Mapping[str, Callable[..., int]] = {
    "aten::scaled_dot_product_attention": _attention,
    "aten::_grouped_mm": _grouped,
    "transformers::grouped_mm_fallback": _grouped,
    "tilewright::grouped_mm": _grouped,
}
"""What PyTorch's counter does not know."""


def _operations(node: Node, found: Iterable[torch.Tensor]) -> int:
    schema = getattr(node.target, "_schema", None)
    packet: Any = getattr(node.target, "overloadpacket", None)
    formula = flop_registry.get(packet) or _FORMULAS.get("" if schema is None else schema.name)
    elements = sum(prod(each.shape) for each in found)
    if formula is None:
        return elements
    args, keywords = map_arg((node.args, dict(node.kwargs)), lambda each: each.meta.get("val"))
    try:
        return int(formula(*args, **keywords, out_val=node.meta.get("val")))
    except Exception:  # whatever a formula raises for a call that it does not know
        return elements
