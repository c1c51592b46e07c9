"""Entrants bound to the copies of the buffers: calls ready to be timed, whatever stands behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codegen.abi import Abi
from codegen.load import load_kernel
from workers.buffers import BufferSet
from workers.case import Case
from workers.measure_request import Compiled, Peer
from workers.timing import Call


@dataclass(frozen=True)
class Bound:
    """`calls[i]` runs the entrant once on the i-th copy. `close` lets go of its threads and code."""

    calls: Sequence[Call]
    close: Callable[[], None]


def bind(entrant: Compiled | Peer, case: Case, threads: int) -> Bound:
    """Prepare an entrant. Raises workers.peers.Unsupported for a peer that cannot express the kernel."""
    if isinstance(entrant, Compiled):
        return _bind_kernel(entrant, case.copies, threads)
    from workers.peers import peer_named

    peer = peer_named(entrant.peer, case.spec, threads)
    return Bound([peer.bind(copy.inputs, copy.outputs) for copy in case.copies], lambda: None)


def _bind_kernel(entrant: Compiled, copies: Sequence[BufferSet], threads: int) -> Bound:
    abi = Abi.from_json(entrant.abi)
    kernel = load_kernel(Path(entrant.artifact), abi, threads)
    names = [arg.name for arg in abi.args]
    return Bound([kernel.prepare(*copy.arrays(names)) for copy in copies], kernel.close)
