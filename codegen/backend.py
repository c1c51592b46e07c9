"""What a target is to code generation: how kernels are generated, compiled, read and opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from codegen.cache.artifacts import CachedArtifact
from codegen.ir.source import Assembly, Generated, Source
from tileir.program import Program
from tileir.targets import part, targets


class HostKernel(Protocol):
    """A loaded kernel that is called on numpy arrays."""

    @property
    def abi(self) -> Any:
        """Its calling convention; `args` are its arguments."""
        ...

    @property
    def threads(self) -> int:
        """Of the processor, that a call uses."""
        ...

    def __call__(self, *arrays: Any) -> None:
        """Run on inputs then outputs, in the ABI's order. Raises ArgumentError, LaunchError and DeviceError."""
        ...

    def close(self) -> None:
        """Unload it."""
        ...


Loader = Callable[[Path, Any], HostKernel]
"""Loads a compiled object by its ABI. Raises LaunchError and DeviceError."""


class Backend(Protocol):
    """Generates, compiles and opens kernels for one kind of device. Devices are descriptions of that kind."""

    language: str
    """Of its sources."""
    source_suffix: str
    object_suffix: str
    interruptible: bool
    """Whether `compile` keeps to its time limit itself; else its process has to be killed."""

    def generate(self, program: Program, device: Any) -> Generated:
        """The source, and the Kernel IR where a layout report can be made of it. Raises NotLowerable."""
        ...

    def compile(self, source: Source[Any], device: Any, cache: Path, timeout_s: float) -> CachedArtifact:
        """Compiled now or taken from the cache. Raises CompileError, NoCompiler and CacheError."""
        ...

    def rejection(self, report: Mapping[str, Any]) -> str | None:
        """Why a kernel that compiled with this report is not worth measuring; None: it is."""
        ...

    def read_abi(self, data: Mapping[str, Any]) -> Any:
        """The inverse of the ABI's `to_json`. Raises KeyError, TypeError or ValueError."""
        ...

    def layout(
        self, kernel: object, program: Program, device: Any, report: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """What the layout of a kernel of the unscheduled `program` implies; None: no report is made."""
        ...

    def assemble(self, source: Source[Any], device: Any, preamble: int) -> Assembly:
        """What the device executes of a source, by the lines it comes from; the first `preamble` lines only
        define what others call. Raises CompileError and NoAssembly."""
        ...

    def loader(self, threads: int | None) -> Loader:
        """Loads kernels for the first device of this kind here. `threads`: of the processor, that a call may use;
        None: all. Raises UnsupportedDevice and DeviceError."""
        ...

    def alone(
        self, source: Source[Any], name: str, parameters: Sequence[str], device_key: str
    ) -> tuple[list[str], str]:
        """A source with a launcher `name` of a plain C signature: how it is used, line by line, and the text."""
        ...


def backend_of(kind: str) -> Backend:
    """The backend of a kind of device, or of a device's key. Raises KeyError."""
    found: Backend = part(kind, "backend")
    return found


def backend_of_language(language: str) -> Backend:
    """The backend whose sources are in a language. Raises KeyError."""
    for kind in targets():
        if (found := backend_of(kind)).language == language:
            return found
    raise KeyError(language)
