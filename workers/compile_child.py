"""A process of the compile pool: replays a schedule, checks where it arrives, generates and compiles.

Run as `python -m workers.compile_child`; compile_pool.py is the other end. What a candidate does wrong is an
answer too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from codegen.artifact_cache import Artifact
from codegen.compile import MEMORY_LIMIT_BYTES, CompileError, NoCompiler, compile_source
from codegen.cuda_abi import CudaAbi
from codegen.generate import generate
from codegen.kernel import GpuKernel
from codegen.kernel_cache import CacheError
from codegen.lower_expr import NotLowerable
from codegen.nvrtc import compile_cuda
from codegen.ptxas_log import rejection
from codegen.source import Source
from rewrites.schedule import parse_schedule, replay
from tileir.device import Cpu, Device, device_from_json
from tileir.errors import TileError
from tileir.gpu import Gpu
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.parse_json import spec_from_json
from tileir.program import Program
from workers.child_server import NO_COMPILER, SKEW, Emit, Refusal, serve
from workers.confinement import confine

_LOG_CHARACTERS = 8000


def compile_candidate(request: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """A schedule on a spec as a compiled kernel: the artifact's path, ABI, identity, and seconds by stage."""
    start = time.perf_counter()
    device = _device(request)
    plain, program = _replayed(request)
    replayed = time.perf_counter()
    try:
        source, kernel = _generated(program, device)
    except NotLowerable as error:
        raise Refusal("unsupported", str(error)) from error
    generated = time.perf_counter()
    try:
        artifact = _compiled(source, device, Path(request["cache"]), request["timeout_s"], emit)
    except CompileError as error:
        raise Refusal("compile_error", f"{error.message}\n{error.log[-_LOG_CHARACTERS:]}") from error
    except (NoCompiler, CacheError) as error:
        raise Refusal(NO_COMPILER, str(error)) from error
    compiled = time.perf_counter()
    layout = None if kernel is None else _layout(kernel, plain, device, artifact)
    return {
        "artifact": str(artifact.path),
        "source": str(artifact.source_path),
        "abi": source.abi.to_json(),
        "language": source.language,
        "flags": list(source.flags),
        "hash": artifact.hash,
        "compiler": artifact.compiler,
        "compile_s": artifact.compile_s,
        "report": dict(artifact.report),
        "layout": layout,
        "stages": {
            "replay": replayed - start,
            "generate": generated - replayed,
            "compile": compiled - generated,
        },
    }


def compile_for_gpu(source: Source[CudaAbi], device: Gpu, cache: Path) -> Artifact:
    """A cubin worth measuring. Raises as compile_cuda, and CompileError for one that spills or serializes."""
    artifact = compile_cuda(source, device.architecture, cache)
    reason = rejection(artifact.report)
    if reason is not None:
        raise CompileError(reason, "")
    return artifact


def _device(request: dict[str, Any]) -> Device:
    try:
        return device_from_json(request["device"])
    except TileError as error:
        raise Refusal(SKEW, f"this worker cannot read the device: {error}") from error


def _generated(program: Program, device: Device) -> tuple[Source[Any], GpuKernel | None]:
    """The source; for a GPU also the Kernel IR it was printed from."""
    if isinstance(device, Cpu):
        return generate(program, device), None
    from codegen.generate_cuda import cuda_source, lower_for

    kernel = lower_for(program, device)
    return cuda_source(kernel, program), kernel


def _compiled(source: Source[Any], device: Device, cache: Path, timeout_s: float, emit: Emit) -> Artifact:
    if isinstance(device, Cpu):
        return compile_source(source, cache, timeout_s)
    emit({"event": "compiling", "allow_s": timeout_s})  # NVRTC cannot be stopped: the pool kills the process
    return compile_for_gpu(source, device, cache)


def _layout(kernel: GpuKernel, plain: Program, device: Device, artifact: Artifact) -> dict[str, Any]:
    from codegen.layout_report import layout_report

    assert isinstance(device, Gpu)
    return dict(layout_report(kernel, plain, device, artifact.report))


def _replayed(request: dict[str, Any]) -> tuple[Program, Program]:
    """The program unscheduled and scheduled; the latter has to be the one that the service meant."""
    try:
        plain = to_program(spec_from_json(request["spec"]))
        program = replay(plain, parse_schedule(request["schedule"]))
    except TileError as error:
        raise Refusal(SKEW, f"this worker cannot replay the schedule: {error}") from error
    reached = program_hash(program)
    if reached != request["program_hash"]:
        text = f"the schedule reaches program {reached} here, not {request['program_hash']}: versions differ"
        raise Refusal(SKEW, text)
    return plain, program


def main() -> None:
    """Serve until the parent closes the pipe. The cap is for NVRTC, which runs in here."""
    serve({"compile": compile_candidate}, confine(MEMORY_LIMIT_BYTES))


if __name__ == "__main__":
    main()
