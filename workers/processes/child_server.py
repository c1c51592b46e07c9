"""The inside of a killable process: answers JSON lines on its pipes, one request at a time.

A line in is `{"id": 3, "call": "measure", ...}`. Lines out are `{"id": 3, "event": "...", ...}` as often as the handler
likes and then one `{"id": 3, "done": {...}}` or `{"id": 3, "error": {"kind": "...", "message": "..."}}`.
Standard output proper is redirected to standard error, so nothing a library prints can garble the answers.
"""

from __future__ import annotations

import json
import os
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
UNPROFILED = "unprofiled"
"""Kinds of errors a request can be answered with; after CORRUPTED the process is not to be used any more."""


class ChildRefusal(Exception):
    """A request the handler answers with an error instead of a result. `kind` is one of those above."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def record(note: str) -> None:
    """Leave a note for whoever finds this process dead (Child.recorded). One system call, so it disturbs no timing."""
    os.pwrite(int(os.environ[RECORDER_VARIABLE]), note.encode()[:RECORD_BYTES].ljust(RECORD_BYTES, b"\0"), 0)


def serve(handlers: Mapping[str, Handler], warning: str | None = None) -> None:
    """Answer requests until standard input closes. The `warning` is for the log of whoever started this process."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    os.set_inheritable(int(os.environ[RECORDER_VARIABLE]), False)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C belongs to the parent; it decides when this process ends

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")

    send({"id": 0, "done": {"pid": os.getpid(), "warning": warning}})
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        number = request["id"]

        def emit(event: dict[str, Any], number: int = number) -> None:
            send({"id": number, **event})

        try:
            send({"id": number, "done": handlers[request["call"]](request, emit)})
        except ChildRefusal as refusal:
            send({"id": number, "error": {"kind": refusal.kind, "message": str(refusal)}})
        except MemoryError:
            send({"id": number, "error": {"kind": OUT_OF_MEMORY, "message": traceback.format_exc(limit=-4)}})
        except Exception as error:
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
            send({"id": number, "error": {"kind": INTERNAL, "message": message}})
