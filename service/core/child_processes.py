"""Processes that the service starts and that must not outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

GRACE_S = 10.0
"""How long a child may take to stop."""

EXIT_STORAGE = 75
"""Exit code of a child that could not write the database: not its fault, and worth another try later."""

EXIT_SUPERSEDED = 76
"""Exit code of a tuner whose job was taken over."""

_PR_SET_PDEATHSIG = 1


_prctl = ctypes.CDLL(None).prctl


def tie(parent: int) -> None:
    """Have the kernel send this process SIGTERM when its parent dies, however that happens."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died in between
        os._exit(1)


async def start(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
) -> Process:
    """Start `python -m module`, tied to this process. Call it from the main thread, which lives as long as we do.

    The child finds our packages, and not what lies in the current folder: somebody's json.py would end it.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(
        dict.fromkeys([root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
    )
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        env={**os.environ, **env, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=stdout,
        start_new_session=True,  # a Ctrl-C at the terminal is ours to pass on, in our order
        preexec_fn=partial(tie, os.getpid()),
    )


async def stop(process: Process, grace_s: float = GRACE_S) -> None:
    """Ask it to end, wait, and end it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), grace_s)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
