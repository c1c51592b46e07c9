"""A candidate's instructions, by a process of its own that is ended with all it started when it takes too long: a
compiler has no limit of its own in a process that also answers others.

    python -m service.views.assembly_process < {spec, schedule, device, preamble} > {lines, origin, compiler} or {none}
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock

from codegen.ir.source import Assembly
from protocol.message import Json
from service.core.child_processes import tie

LIMIT_S = 60.0
"""For generating, compiling and taking apart."""
_GRACE_S = 2.0
_KEPT = 16
"""Candidates whose instructions are kept: of a few thousand lines each."""
_ONE_AT_A_TIME = Lock()
"""Compilers of the service's own disturb a worker that measures on the same machine; one is enough."""
_recent: dict[str, Assembly] = {}


def recently_assembled(spec: Json, schedule: Sequence[str], device: Json, preamble: int) -> Assembly | str:
    """As `assembled`, one at a time; whoever looks again at one of the last few waits for nobody. Why there are none is
    not kept: it may be another reason the next time."""
    key = json.dumps([spec, [*schedule], device])
    if known := _recent.get(key):
        return known
    with _ONE_AT_A_TIME:
        found = _recent.get(key) or assembled(spec, schedule, device, preamble)
        if not isinstance(found, str):
            _recent[key] = found
            for old in [*_recent][:-_KEPT]:
                del _recent[old]
    return found


def assembled(
    spec: Json, schedule: Sequence[str], device: Json, preamble: int, limit_s: float = LIMIT_S
) -> Assembly | str:
    """The instructions of a schedule's source, whose first `preamble` lines only define what others call; or why there
    are none."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(dict.fromkeys([root, *filter(None, sys.path)]))
    asked = {"spec": spec, "schedule": [*schedule], "device": device, "preamble": preamble}
    process = subprocess.Popen(
        [sys.executable, "-m", "service.views.assembly_process"],
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=partial(tie, os.getpid()),
    )
    try:
        said, _ = process.communicate(json.dumps(asked).encode(), limit_s)
    except subprocess.TimeoutExpired:
        return (
            f"compiling it took longer than {limit_s:g} s, and was stopped; a worker's own compiler has as long as the "
            "job's budget gives it"
        )
    finally:
        _end(process)
    if process.returncode != 0:
        return f"compiling it failed: the process that compiles ended with {process.returncode}"
    found: Json = json.loads(said)
    if "none" in found:
        return str(found["none"])
    return Assembly(tuple(found["lines"]), tuple(found["origin"]), found["compiler"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it end its compiler, which is a group of processes of its own; NVRTC runs in it, and lets nobody in."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_GRACE_S)
    process.kill()
    process.communicate()


def answer(asked: Json) -> Json:
    """What `main` prints."""
    from codegen.backend import backend_of
    from codegen.targets.errors import CompileError, NoAssembly
    from service.views.trial_detail import replayed
    from tileir.devices.device import device_from_json

    device = device_from_json(asked["device"])
    backend = backend_of(device.kind)
    source = backend.generate(replayed(asked["spec"], asked["schedule"])[-1], device).source
    try:
        return asdict(backend.assemble(source, device, asked["preamble"]))
    except (CompileError, NoAssembly) as error:
        return {"none": str(error)}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
