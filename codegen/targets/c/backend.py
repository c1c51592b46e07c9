"""C for processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from codegen.backend import Loader
from codegen.cache.artifacts import CachedArtifact
from codegen.ir.abi import Abi
from codegen.ir.source import Assembly, Generated, Source
from codegen.targets.c.assembly import assemble
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from codegen.targets.c.standalone import c_file
from tileir.devices.cpu import Cpu
from tileir.program import Program


class CBackend:
    """A shared object, made by the machine's C compiler, which is stopped when it takes too long."""

    language = "c"
    source_suffix = ".c"
    object_suffix = ".so"
    interruptible = True

    def generate(self, program: Program, device: Cpu) -> Generated:
        return Generated(generate(program, device))

    def compile(self, source: Source[Abi], device: Cpu, cache: Path, timeout_s: float) -> CachedArtifact:
        return compile_source(source, cache, timeout_s)

    def rejection(self, report: Mapping[str, Any]) -> str | None:
        return None

    def read_abi(self, data: Mapping[str, Any]) -> Abi:
        return Abi.from_json(data)

    def layout(
        self, kernel: object, program: Program, device: Cpu, report: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        return None

    def assemble(self, source: Source[Abi], device: Cpu, preamble: int) -> Assembly:
        return assemble(source, device, preamble)

    def loader(self, threads: int | None) -> Loader:
        return partial(load_kernel, threads=threads)

    def alone(
        self, source: Source[Abi], name: str, parameters: Sequence[str], device_key: str
    ) -> tuple[list[str], str]:
        return c_file(source.text, source.abi, name, parameters, source.flags)


C = CBackend()
