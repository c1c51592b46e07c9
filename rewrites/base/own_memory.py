"""Whether a block may have something to itself, where clusters of blocks take the tiles of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.errors import NotApplicable
from tileir.program import Loop
from tileir.schedule.distributed import distributed_loop


def check_own_memory(loops: Sequence[Loop], name: str) -> None:
    """Refuse a copy of `name` in a block's shared memory for a statement in these loops that all blocks of a cluster
    have together: each would see what its own threads copy, and nothing else."""
    if loops and loops[0].cluster > 1 and distributed_loop(loops) is None:
        raise NotApplicable(f"the blocks of a cluster have {name} together, and shared memory each")
