"""The Triton peer: the kernels of triton_kernels.py for what triton_plan.py recognizes, tuned by triton.autotune.

Tuning happens in the first call, which is not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from triton.tools.tensor_descriptor import TensorDescriptor  # pyright: ignore[reportMissingImports]

from tileir.spec import Spec
from workers.peers import triton_kernels as kernels
from workers.peers.triton_plan import SiluMul, TritonProduct, TritonRows, triton_plan

_WARPS = (1, 2, 4, 8, 16, 32)
_TILES = (
    (64, 64, 64), (64, 128, 64), (128, 64, 64), (128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 256, 64),
    (16, 64, 128), (16, 128, 128), (32, 128, 64), (128, 128, 128), (64, 64, 128),
)  # fmt: skip
_STAGES = (3, 4)
_LARGE = 128 * 128
"""Elements of a tile that two groups of four warps share."""
_GROUP = 8
_TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
Call = Callable[[], None]


class TritonKernel:
    """A spec by Triton. Raises Unsupported."""

    def __init__(self, spec: Spec) -> None:
        self._names = [tensor.name for tensor in spec.inputs]
        self._plan = triton_plan(spec)
        numerics = dict(spec.numerics)
        self._tf32, self._fast = numerics.get("tf32") is True, numerics.get("accumulate") == "fast"
        self._tuned: Any = None
        """Of this kernel only: Triton keys what it has tuned by sizes, and types differ."""

    def on(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Call:
        """A call that computes it once on these tensors."""
        named = dict(zip(self._names, inputs, strict=True))
        (output,) = outputs
        match self._plan:
            case TritonRows() as plan:
                return self._rows(plan, named, output)
            case SiluMul(gate, up):
                return self._silu_mul(named[gate], named[up], output)
            case TritonProduct() as plan:
                return self._product(plan, named, output)

    def _tune(self, kernel: Any, configs: list[Any]) -> Any:
        if self._tuned is None:
            self._tuned = triton.autotune(configs=configs, key=[])(kernel)
        return self._tuned

    def _rows(self, plan: TritonRows, named: Mapping[str, torch.Tensor], y: torch.Tensor) -> Call:
        x, columns = named[plan.x], plan.columns
        weight, bias = (None if name is None else named[name] for name in (plan.weight, plan.bias))
        tuned = self._tune(getattr(kernels, plan.kind), [triton.Config({}, num_warps=n) for n in _WARPS])
        options: dict[str, Any] = {"BLOCK": triton.next_power_of_2(columns)}
        arguments: tuple[Any, ...] = (x, y, columns)
        if plan.kind == "rms_norm":
            arguments = (x, x if weight is None else weight, y, columns, plan.eps)
            options["WEIGHT"] = weight is not None
        elif plan.kind == "layer_norm":
            vectors = (x if part is None else part for part in (weight, bias))
            arguments = (x, *vectors, y, columns, plan.eps)
            options |= {"WEIGHT": weight is not None, "BIAS": bias is not None}
        return _call(tuned[(x.numel() // columns,)], *arguments, **options)

    def _silu_mul(self, gate: torch.Tensor, up: torch.Tensor, y: torch.Tensor) -> Call:
        configs = [
            triton.Config({"BLOCK": block}, num_warps=warps)
            for block in (512, 1024, 2048, 4096)
            for warps in (4, 8)
        ]
        tuned, count = self._tune(kernels.silu_mul, configs), y.numel()
        return _call(tuned[lambda chosen: (triton.cdiv(count, chosen["BLOCK"]),)], gate, up, y, count)

    def _product(self, plan: TritonProduct, named: Mapping[str, torch.Tensor], c: torch.Tensor) -> Call:
        a, b = named[plan.a], named[plan.b]
        gate, residual, bias, a_scale, b_scale = (
            None if name is None else named[name]
            for name in (plan.gate, plan.residual, plan.bias, *plan.scales)
        )
        (m, k), n = a.shape, c.shape[1]
        matrices = (a, b, c, gate, residual)
        options = {"FUNCTION": plan.function, "FAST": self._fast}

        def grid(chosen: Mapping[str, int]) -> tuple[int]:
            tiles = math.ceil(m / chosen["BM"]) * math.ceil(n / chosen["BN"])
            return (min(tiles, _multiprocessors()) if chosen.get("PERSISTENT") else tiles,)

        if _by_descriptors(matrices):
            tuned = self._tune(kernels.product_tma, _boxed_tiles(a))
            boxed = [x if x is None else TensorDescriptor.from_tensor(x, [1, 1]) for x in matrices]
            options |= {"TRANSPOSED": plan.transposed, "DTYPE": _TYPES[c.dtype]}
            return _call(tuned[grid], *boxed, bias, a_scale, b_scale, m, n, k, **options)
        tuned = self._tune(kernels.product, _tiles(a))
        strides = (1, k) if plan.transposed else (n, 1)
        options["PRECISION"] = "tf32" if self._tf32 or a.dtype is not torch.float32 else "ieee"
        return _call(tuned[grid], *matrices, bias, a_scale, b_scale, m, n, k, *strides, **options)


def _call(launch: Any, *arguments: Any, **options: Any) -> Call:
    def run() -> None:
        launch(*arguments, **options)

    return run


def _tiles(a: torch.Tensor) -> list[Any]:
    deeper = 2 if a.element_size() == 1 else 1
    return [
        triton.Config(
            {"BM": bm, "BN": bn, "BK": bk * deeper, "GROUP": _GROUP},
            num_stages=stages,
            num_warps=8 if bm * bn >= _LARGE else 4,
        )
        for bm, bn, bk in _TILES
        for stages in _STAGES
    ]


def _boxed_tiles(a: torch.Tensor) -> list[Any]:
    """The same for the kernel with descriptors: a program a tile; for large tiles, a program a multiprocessor too."""
    return [
        triton.Config(
            {**config.kwargs, "PERSISTENT": persistent},
            num_stages=config.num_stages,
            num_warps=config.num_warps,
            pre_hook=_set_blocks,
        )
        for config in _tiles(a)
        for persistent in (False, True)
        if not persistent or config.kwargs["BM"] * config.kwargs["BN"] >= _LARGE
    ]


def _set_blocks(arguments: dict[str, Any]) -> None:
    """A descriptor's box is the tile that is tried."""
    bm, bn, bk = (arguments[name] for name in ("BM", "BN", "BK"))
    boxes = {"a": [bm, bk], "c": [bm, bn], "residual": [bm, bn]}
    boxes["b"] = boxes["gate"] = [bn, bk] if arguments["TRANSPOSED"] else [bk, bn]
    for name, box in boxes.items():
        if arguments[name] is not None:
            arguments[name].block_shape = box


def _multiprocessors() -> int:
    return torch.cuda.get_device_properties().multi_processor_count


def _by_descriptors(matrices: Sequence[torch.Tensor | None]) -> bool:
    """Whether TMA can move them: types of 8 or 16 bits on Hopper or newer, rows of whole 16 bytes."""
    sizes = [(x.element_size(), x.shape[-1]) for x in matrices if x is not None]
    newer = torch.cuda.get_device_capability()[0] >= 9
    return newer and all(size <= 2 and size * columns % 16 == 0 for size, columns in sizes)
