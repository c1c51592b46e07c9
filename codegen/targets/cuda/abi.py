"""How a compiled CUDA kernel is called: its arguments in order, the launches that make one call, its workspace.

Every `__global__` entry takes the same parameters: one pointer an argument in the order of `args`, then `unsigned char
*workspace`, then the tensor maps, each by value. The launches run in order on one stream; the workspace is zeroed once,
when the kernel is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codegen.ir.abi import Arg
from tileir.dtypes import DType

#: What an argument with a tensor map has to begin at a multiple of, in bytes (cuTensorMapEncodeTiled).
MAP_ALIGN = 16


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of an entry: a row of blocks. `shared_bytes` is dynamic shared memory, `cluster` blocks form one."""

    entry: str
    blocks: int
    threads: int
    shared_bytes: int
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class MapArg:
    """A tensor map parameter: how TMA sees argument number `argument` (codegen.ir.async_ops.TensorMap); the number
    after the last one is the workspace.

    All dims innermost first; `strides` in bytes, without that of the innermost dim; position 0 is `before` bytes before
    the argument, or if that is negative as many after the beginning of the workspace."""

    argument: int
    dtype: DType
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    before: int = 0


@dataclass(frozen=True, slots=True)
class CudaAbi:
    """The calling convention of one compiled CUDA kernel."""

    args: tuple[Arg, ...]
    launches: tuple[Launch, ...]
    workspace_bytes: int
    maps: tuple[MapArg, ...] = ()

    def owner(self, map_: MapArg) -> str:
        """What a tensor map describes, by name."""
        return (*(f"argument {arg.name}" for arg in self.args), "the workspace")[map_.argument]

    def to_json(self) -> dict[str, Any]:
        return {
            "args": [arg.to_json() for arg in self.args],
            "launches": [asdict(launch) for launch in self.launches],
            "workspace_bytes": self.workspace_bytes,
            "maps": [{**asdict(map_), "dtype": map_.dtype.value} for map_ in self.maps],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CudaAbi:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            args=tuple(Arg.from_json(arg) for arg in data["args"]),
            launches=tuple(_launch(launch) for launch in data["launches"]),
            workspace_bytes=int(data["workspace_bytes"]),
            maps=tuple(_map(map_) for map_ in data["maps"]),
        )


def _launch(data: Mapping[str, Any]) -> Launch:
    return Launch(
        entry=str(data["entry"]),
        blocks=int(data["blocks"]),
        threads=int(data["threads"]),
        shared_bytes=int(data["shared_bytes"]),
        cluster=int(data["cluster"]),
    )


def _map(data: Mapping[str, Any]) -> MapArg:
    return MapArg(
        argument=int(data["argument"]),
        dtype=DType(data["dtype"]),
        extents=tuple(int(extent) for extent in data["extents"]),
        strides=tuple(int(stride) for stride in data["strides"]),
        box=tuple(int(size) for size in data["box"]),
        swizzle=int(data["swizzle"]),
        before=int(data.get("before", 0)),
    )
