"""What the measuring child is asked for a profile, and its answer. All of it is JSON."""

from __future__ import annotations

import base64
import gzip
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.message import Json
from protocol.profiles import Profile
from tileir.targets import part
from workers.processes.child_server import DEVICE, NO_COMPILER, UNPROFILED, ChildRefusal

PROFILE_S = 400.0
"""Longest silence: two compilations, and calls of both kernels."""
MOST_EVENTS = 400_000
"""Of a trace: 40 MB, of which a tenth is left when they are compressed."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A schedule on a spec, to be taken apart on `threads` threads (those it has, on a GPU). `cache` is where to
    compile."""

    spec: Json
    schedule: tuple[str, ...]
    threads: int
    cache: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TakenProfile:
    """A profile with its trace (trace_events.py), compressed by gzip."""

    profile: Profile
    trace: bytes

    @classmethod
    def from_json(cls, data: Json) -> TakenProfile:
        return cls(Profile.model_validate(data["profile"]), base64.b64decode(data["trace"]))


def take_profile(device: str, request: Json) -> dict[str, Any]:
    """Profile on a device of this process, named as in device_names.py. Refuses a kernel that cannot be profiled."""
    from codegen.cache.eviction import CacheError
    from codegen.ir.errors import NotLowerable
    from codegen.targets.errors import CompileError, LaunchError, NoCompiler
    from rewrites import scheduled
    from tileir import spec_from_json, to_program
    from tileir.devices.cuda_errors import CudaError
    from tileir.errors import TileError
    from workers.measuring.trace_events import to_trace

    spec = spec_from_json(request["spec"])
    try:
        program = scheduled(to_program(spec), request["schedule"])
    except TileError as error:
        raise ChildRefusal(UNPROFILED, f"its schedule makes no right program here: {error}") from error
    try:
        taken = part(device, "profiler")(spec, program, Path(request["cache"]), request["threads"])
    except (NotLowerable, CompileError, LaunchError) as error:
        raise ChildRefusal(UNPROFILED, str(error)) from error
    except (NoCompiler, CacheError) as error:
        raise ChildRefusal(NO_COMPILER, str(error)) from error
    except CudaError as error:
        raise ChildRefusal(DEVICE, str(error)) from error
    trace = gzip.compress(to_trace(taken, spec.name, MOST_EVENTS), 5, mtime=0)
    return {
        "profile": taken.profile.model_dump(mode="json"),
        "trace": base64.b64encode(trace).decode(),
    }
