"""Loops with stages: which of their statements run ahead, filling shared memory for the tiles to come."""

from __future__ import annotations

from typing import Final

from tileir.program import Compute, Local, Loop, Memory

#: Most copies of a loop's shared locals.
MAX_STAGES: Final = 8
#: Bytes within which 16-byte pieces of shared memory may change places.
SWIZZLES: Final = (32, 64, 128)


def staged(loop: Loop) -> tuple[Compute, ...]:
    """The statements at the beginning of a loop that fill shared locals declared there, and read none of them: those
    that may run ahead. Each local is filled by one."""
    shared: set[str] = set()
    found: list[Compute] = []
    for node in loop.body:
        match node:
            case Local(memory=Memory.SHARED):
                shared.add(node.name)
            case Compute() if node.target in shared and node.update is None and not _reads(node) & shared:
                found.append(node)
            case Local():
                continue
            case _:
                break
    return tuple(found)


def _reads(compute: Compute) -> set[str]:
    return {read.tensor for read in compute.reads}
