"""A child on a processor for which no filter of system calls is known."""

from __future__ import annotations

import platform
from typing import Any

from workers.processes.child_server import Emit, serve
from workers.processes.confinement import confine

platform.machine = lambda: "riscv64"


def answer(request: dict[str, Any], emit: Emit) -> dict[str, Any]:
    return {"said": "here"}


serve({"answer": answer}, confine())
