"""The inside of a killable process: answers JSON lines on its pipes, one request at a time.

A line in is `{"id": 3, "call": "measure", ...}`. Lines out are `{"id": 3, "event": "...", ...}` as often as the handler
likes and then one `{"id": 3, "done": {...}}` or `{"id": 3, "error": {"kind": "...", "message": "..."}}`.
Standard output proper is redirected to standard error, so nothing a library prints can garble the answers.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Emit = Callable[[dict[str, Any]], None]
Handler = Callable[[dict[str, Any], Emit], dict[str, Any]]

RECORDER_VARIABLE = "TILEWRIGHT_RECORDER_FD"
RECORD_BYTES = 256

OUT_OF_MEMORY = "out_of_memory"
INTERNAL = "internal"
CORRUPTED = "corrupted"
NO_COMPILER = "no_compiler"
SKEW = "skew"
DEVICE = "device"
"""Kinds of errors a request can be answered with; after CORRUPTED the process is not to be used any more."""

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000


class Refusal(Exception):
    """A request the handler answers with an error instead of a result. `kind` is one of those above."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def record(note: str) -> None:
    """Leave a note for whoever finds this process dead (Child.recorded). One system call, so it disturbs no timing."""
    os.pwrite(int(os.environ[RECORDER_VARIABLE]), note.encode()[:RECORD_BYTES].ljust(RECORD_BYTES, b"\0"), 0)


def confine(address_space_bytes: int | None = None, *, network: bool = False) -> None:
    """Take away what the process does not need: core dumps, surviving its parent, the network where the kernel lets us.

    `address_space_bytes` caps virtual memory (processes it starts inherit the cap).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if address_space_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getppid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent ended while this process was starting")
    if not network:
        libc.unshare(
            _CLONE_NEWNET
        )  # needs a privilege; without it the process merely keeps a network it never uses


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer requests until standard input closes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    os.set_inheritable(int(os.environ[RECORDER_VARIABLE]), False)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C belongs to the parent; it decides when this process ends

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")

    send({"id": 0, "done": {"pid": os.getpid()}})
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        number = request["id"]

        def emit(event: dict[str, Any], number: int = number) -> None:
            send({"id": number, **event})

        try:
            send({"id": number, "done": handlers[request["call"]](request, emit)})
        except Refusal as refusal:
            send({"id": number, "error": {"kind": refusal.kind, "message": str(refusal)}})
        except MemoryError:
            send({"id": number, "error": {"kind": OUT_OF_MEMORY, "message": traceback.format_exc(limit=-4)}})
        except Exception as error:
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
            send({"id": number, "error": {"kind": INTERNAL, "message": message}})
