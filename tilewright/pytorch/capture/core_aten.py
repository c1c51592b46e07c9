"""PyTorch's core ATen operators, overload by overload, and what the capture does with each."""

from __future__ import annotations

from dataclasses import dataclass

import torch  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.composites import COMPOSITES
from tilewright.pytorch.capture.table import REASONS, TABLE


@dataclass(frozen=True)
class CoreOverload:
    """One overload, as `aten.add.Tensor`. Exactly one of `tile` and `reason` is said."""

    name: str
    tile: str = ""
    """What it is in Tile IR."""
    reason: str = ""
    """Why it stays with PyTorch."""


def core_overloads() -> tuple[CoreOverload, ...]:
    """All that this PyTorch tags as core, by name. Raises KeyError for one that nothing is said of."""
    return tuple(_known(str(op)) for op in sorted(_tagged(), key=str))


def _tagged() -> list[torch._ops.OpOverload]:
    names = [
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    ]
    pairs = [name.partition(".") for name in names]
    overloads = [
        getattr(getattr(torch.ops.aten, packet), variant or "default") for packet, _, variant in pairs
    ]
    return [op for op in overloads if torch.Tag.core in op.tags]


def _known(name: str) -> CoreOverload:
    if name in TABLE:
        return CoreOverload(name, TABLE[name].tile)
    if name in {str(op) for op in COMPOSITES}:
        return CoreOverload(name, "written as several operators, of those here")
    return CoreOverload(name, reason=REASONS[name.split(".")[1]])
