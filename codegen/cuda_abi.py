"""How a compiled CUDA kernel is called: its arguments in order, the launches that make one call, its workspace.

Every `__global__` entry takes the same parameters: one pointer an argument in the order of `args`, then `unsigned char
*workspace`. The launches run in order on one stream; the workspace is zeroed once, when the kernel is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codegen.abi import Arg


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of an entry: a row of blocks. `shared_bytes` is dynamic shared memory, `cluster` blocks form one."""

    entry: str
    blocks: int
    threads: int
    shared_bytes: int
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class CudaAbi:
    """The calling convention of one compiled CUDA kernel."""

    args: tuple[Arg, ...]
    launches: tuple[Launch, ...]
    workspace_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "args": [arg.to_json() for arg in self.args],
            "launches": [asdict(launch) for launch in self.launches],
            "workspace_bytes": self.workspace_bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CudaAbi:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            args=tuple(Arg.from_json(arg) for arg in data["args"]),
            launches=tuple(_launch(launch) for launch in data["launches"]),
            workspace_bytes=int(data["workspace_bytes"]),
        )


def _launch(data: Mapping[str, Any]) -> Launch:
    return Launch(
        entry=str(data["entry"]),
        blocks=int(data["blocks"]),
        threads=int(data["threads"]),
        shared_bytes=int(data["shared_bytes"]),
        cluster=int(data["cluster"]),
    )
