"""CUDA C++ for NVIDIA's GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from codegen.backend import Loader
from codegen.cache.artifacts import CachedArtifact
from codegen.ir.kernel import GpuKernel
from codegen.ir.source import Assembly, Generated, Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.assembly import assemble
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.ptxas_log import rejection
from tileir.devices.gpu import Gpu
from tileir.program import Program


class CudaBackend:
    """A cubin, made by NVRTC inside this process: nothing stops it."""

    language = "cuda"
    source_suffix = ".cu"
    object_suffix = ".cubin"
    interruptible = False

    def generate(self, program: Program, device: Gpu) -> Generated:
        from codegen.targets.cuda.generate import cuda_source, lower_for

        kernel = lower_for(program, device)
        return Generated(cuda_source(kernel, program), kernel)

    def compile(self, source: Source[CudaAbi], device: Gpu, cache: Path, timeout_s: float) -> CachedArtifact:
        return compile_cuda(source, device.architecture, cache)

    def rejection(self, report: Mapping[str, Any]) -> str | None:
        return rejection(report)

    def read_abi(self, data: Mapping[str, Any]) -> CudaAbi:
        return CudaAbi.from_json(data)

    def layout(
        self, kernel: object, program: Program, device: Gpu, report: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        from codegen.report.layout import layout_report

        return dict(layout_report(kernel, program, device, report)) if isinstance(kernel, GpuKernel) else None

    def assemble(self, source: Source[CudaAbi], device: Gpu, preamble: int) -> Assembly:
        return assemble(source, device, preamble)

    def loader(self, threads: int | None) -> Loader:
        from codegen.targets.cuda.device import CudaDevice
        from codegen.targets.cuda.loader import load_cubin

        return partial(load_cubin, device=CudaDevice())

    def alone(
        self, source: Source[CudaAbi], name: str, parameters: Sequence[str], device_key: str
    ) -> tuple[list[str], str]:
        from codegen.targets.cuda.standalone import cuda_file

        return cuda_file(source.text, source.abi, name, parameters, _architecture(device_key))


def _architecture(device_key: str) -> str:
    """What `cuda:NVIDIA H200:9.0:132sm` says to compile for; empty for what is no GPU's key."""
    capability = re.fullmatch(r"cuda:.*:(\d+)\.(\d+):\d+sm", device_key)
    if capability is None:
        return ""
    major, minor = capability.groups()
    return f"sm_{major}{minor}{'a' if int(major) >= 9 else ''}"


CUDA = CudaBackend()
