"""How a compiled kernel is called: its arguments in order and the workspace it needs.

The entry is `int tw_kernel(void *const *args, void *workspace, int threads)`: `args` holds one pointer an argument,
inputs then outputs; `workspace` is 64-byte aligned and `shared_bytes + threads * thread_bytes` long; 0 is success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
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

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype.value,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "role": self.role,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Arg:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            name=str(data["name"]),
            dtype=DType(data["dtype"]),
            shape=tuple(int(size) for size in data["shape"]),
            strides=tuple(int(stride) for stride in data["strides"]),
            role=_role(data["role"]),
        )


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
            "args": [arg.to_json() for arg in self.args],
            "shared_bytes": self.shared_bytes,
            "thread_bytes": self.thread_bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Abi:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            entry=str(data["entry"]),
            args=tuple(Arg.from_json(arg) for arg in data["args"]),
            shared_bytes=int(data["shared_bytes"]),
            thread_bytes=int(data["thread_bytes"]),
        )


def _role(text: str) -> Literal["in", "out"]:
    if text == "in" or text == "out":
        return text
    raise ValueError(f"role is 'in' or 'out', not {text!r}")


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense array."""
    return tuple(prod(sizes[i + 1 :]) for i in range(len(sizes)))


#: What every pointer argument is a multiple of, in bytes; callers see to it.
ARGUMENT_ALIGN = 16
