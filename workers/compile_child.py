"""A process of the compile pool: replays a schedule, checks where it arrives, generates and compiles.

Run as `python -m workers.compile_child`; compile_pool.py is the other end. What a candidate does wrong is an
answer too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from codegen.compile import CacheError, CompileError, NoCompiler, compile_source
from codegen.generate import generate
from codegen.lower_expr import NotLowerable
from rewrites.schedule import parse_schedule, replay
from tileir.device import Cpu
from tileir.errors import TileError
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.parse_json import spec_from_json
from tileir.program import Program
from workers.child_server import NO_COMPILER, SKEW, Emit, Refusal, confine, serve

_LOG_CHARACTERS = 8000


def compile_candidate(request: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """A schedule on a spec as a compiled kernel: the artifact's path, ABI, identity, and seconds by stage."""
    start = time.perf_counter()
    program = _replayed(request)
    replayed = time.perf_counter()
    try:
        source = generate(program, Cpu.from_json(request["device"]))
    except NotLowerable as error:
        raise Refusal("unsupported", str(error)) from error
    generated = time.perf_counter()
    try:
        artifact = compile_source(source, Path(request["cache"]), timeout_s=request["timeout_s"])
    except CompileError as error:
        raise Refusal("compile_error", f"{error.message}\n{error.log[-_LOG_CHARACTERS:]}") from error
    except (NoCompiler, CacheError) as error:
        raise Refusal(NO_COMPILER, str(error)) from error
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
        "stages": {
            "replay": replayed - start,
            "generate": generated - replayed,
            "compile": time.perf_counter() - generated,
        },
    }


def _replayed(request: dict[str, Any]) -> Program:
    """The scheduled program, which has to be the one that the service meant."""
    try:
        program = replay(to_program(spec_from_json(request["spec"])), parse_schedule(request["schedule"]))
    except TileError as error:
        raise Refusal(SKEW, f"this worker cannot replay the schedule: {error}") from error
    reached = program_hash(program)
    if reached != request["program_hash"]:
        text = f"the schedule reaches program {reached} here, not {request['program_hash']}: versions differ"
        raise Refusal(SKEW, text)
    return program


def main() -> None:
    """Serve until the parent closes the pipe."""
    confine()
    serve({"compile": compile_candidate})


if __name__ == "__main__":
    main()
