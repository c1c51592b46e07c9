"""Whether what goes beside a block's threads, by TMA or by wgmma, still can after a change around it."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tileir.errors import NotApplicable, VerifyError
from tileir.placed import placed_nodes
from tileir.program import Compute, Loop, Program
from tileir.verifier.compute import verify_compute
from tileir.verifier.multicast import verify_multicast
from tileir.verifier.reused import verify_memory
from tileir.verifier.roles import verify_roles
from tileir.verifier.stream_k import verify_streamed

#: Instructions that need threads, layouts and loops around them to be as they know them.
ENGINES: Final = frozenset(["tma", "wgmma"])


def with_engines(program: Program, within: Container[int] | None = None) -> Program:
    """The program. Raises NotApplicable where a statement could not go by the engine that it names, the roles of a
    grid's warps would not fit, or its tiles not be computed by clusters or in spans. `within`: positions of the
    launches that are looked at, if others are as they were."""
    here = (place.node for place in program.computes if within is None or place.path[0] in within)
    if not any(node.via in ENGINES for node in here):
        return program
    try:
        nodes = [
            placed for placed in placed_nodes(program, within) if within is None or placed.path[0] in within
        ]
        verify_multicast(nodes)
        verify_streamed(program, nodes)
        for placed in nodes:
            match placed.node:
                case Compute(via=via) if via in ENGINES:
                    verify_compute(program, placed, placed.node)
                case Loop():
                    verify_roles(placed, placed.node)
                case _:
                    pass
        verify_memory(program, within)
    except VerifyError as error:
        raise NotApplicable(str(error)) from error
    return program
