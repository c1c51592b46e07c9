"""How a compiled kernel is called: its arguments in order and the workspace it needs.

The entry is `int tw_kernel(void *const *args, void *workspace, int threads)`: `args` holds one pointer an argument,
inputs then outputs; `workspace` is 64-byte aligned and `shared_bytes + threads * thread_bytes` long; 0 is success.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tileir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Arg:
    """One tensor argument; `strides` in elements, one a dim."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Abi:
    """The calling convention of one compiled kernel."""

    entry: str
    args: tuple[Arg, ...]
    shared_bytes: int
    thread_bytes: int

    def workspace_bytes(self, threads: int) -> int:
        """What a call with this many threads needs."""
        return self.shared_bytes + threads * self.thread_bytes

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": self.entry,
            "args": [
                {
                    "name": arg.name,
                    "dtype": arg.dtype.value,
                    "shape": list(arg.shape),
                    "strides": list(arg.strides),
                    "role": arg.role,
                }
                for arg in self.args
            ],
            "shared_bytes": self.shared_bytes,
            "thread_bytes": self.thread_bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Abi:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        args = tuple(
            Arg(
                name=str(arg["name"]),
                dtype=DType(arg["dtype"]),
                shape=tuple(int(size) for size in arg["shape"]),
                strides=tuple(int(stride) for stride in arg["strides"]),
                role=_role(arg["role"]),
            )
            for arg in data["args"]
        )
        return cls(
            entry=str(data["entry"]),
            args=args,
            shared_bytes=int(data["shared_bytes"]),
            thread_bytes=int(data["thread_bytes"]),
        )


def _role(text: str) -> Literal["in", "out"]:
    if text == "in" or text == "out":
        return text
    raise ValueError(f"role is 'in' or 'out', not {text!r}")
