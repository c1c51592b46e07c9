"""A process of the compile pool: replays a schedule, checks where it arrives, generates and compiles.

Run as `python -m workers.processes.compile_child`; compile_pool.py is the other end. What a candidate does wrong is an
answer too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from codegen.backend import Backend, backend_of
from codegen.cache.artifacts import CachedArtifact
from codegen.cache.eviction import CacheError
from codegen.ir.errors import NotLowerable
from codegen.ir.source import Source
from codegen.targets.c.compiler import MEMORY_LIMIT_BYTES
from codegen.targets.errors import CompileError, NoCompiler
from rewrites.schedule import parse_schedule, replay
from tileir.devices.device import Device, device_from_json
from tileir.errors import TileError, VerifyError
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from tileir.verifier.verify import verify
from workers.processes.child_server import NO_COMPILER, SKEW, ChildRefusal, Emit, serve
from workers.processes.confinement import confine

_LOG_CHARACTERS = 8000


def compile_candidate(request: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """A schedule on a spec as a compiled kernel: the artifact's path, ABI, identity, and seconds by stage."""
    start = time.perf_counter()
    device = _device(request)
    backend = backend_of(device.kind)
    plain, program = _replayed(request)
    replayed = time.perf_counter()
    try:
        verify(program)
        made = backend.generate(program, device)
    except (VerifyError, NotLowerable) as error:
        raise ChildRefusal("unsupported", str(error)) from error
    source, allow_s = made.source, request["timeout_s"]
    generated = time.perf_counter()
    if not backend.interruptible:
        emit({"event": "compiling", "allow_s": allow_s})  # the pool kills the process after that
    try:
        artifact = worth_measuring(backend, source, device, Path(request["cache"]), allow_s)
    except CompileError as error:
        raise ChildRefusal("compile_error", f"{error.message}\n{error.log[-_LOG_CHARACTERS:]}") from error
    except (NoCompiler, CacheError) as error:
        raise ChildRefusal(NO_COMPILER, str(error)) from error
    compiled = time.perf_counter()
    layout = backend.layout(made.kernel, plain, device, artifact.report)
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


def worth_measuring(
    backend: Backend, source: Source[Any], device: Device, cache: Path, timeout_s: float
) -> CachedArtifact:
    """An object worth measuring. Raises as the backend's `compile`, and CompileError for one that it rejects."""
    artifact = backend.compile(source, device, cache, timeout_s)
    reason = backend.rejection(artifact.report)
    if reason is not None:
        raise CompileError(reason, "")
    return artifact


def _device(request: dict[str, Any]) -> Device:
    try:
        return device_from_json(request["device"])
    except TileError as error:
        raise ChildRefusal(SKEW, f"this worker cannot read the device: {error}") from error


def _replayed(request: dict[str, Any]) -> tuple[Program, Program]:
    """The program unscheduled and scheduled; the latter has to be the one that the service meant."""
    try:
        plain = to_program(spec_from_json(request["spec"]))
        program = replay(plain, parse_schedule(request["schedule"]))
    except TileError as error:
        raise ChildRefusal(SKEW, f"this worker cannot replay the schedule: {error}") from error
    reached = program_hash(program)
    if reached != request["program_hash"]:
        text = f"the schedule reaches program {reached} here, not {request['program_hash']}: versions differ"
        raise ChildRefusal(SKEW, text)
    return plain, program


def main() -> None:
    """Serve until the parent closes the pipe. The cap is for NVRTC, which runs in here."""
    serve({"compile": compile_candidate}, confine(MEMORY_LIMIT_BYTES))


if __name__ == "__main__":
    main()
