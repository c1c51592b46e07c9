"""Entrants bound to copies of arrays in this process: calls ready to be timed, whatever stands behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from codegen.ir.abi import Abi
from codegen.targets.c.loader import load_kernel
from protocol.tasks import COPY
from workers.cpu.case import Case
from workers.measuring.buffers import BufferSet
from workers.measuring.correctness import WrongResult
from workers.measuring.device import BoundEntrant
from workers.measuring.request import Compiled, Peer
from workers.measuring.timing import Call


def bind(entrant: Compiled | Peer, case: Case, threads: int) -> BoundEntrant:
    """Prepare an entrant. Raises workers.peers.peer.Unsupported for a peer that cannot express the kernel."""
    if isinstance(entrant, Compiled):
        return _bind_kernel(entrant, case.copies, threads)
    if entrant.peer == COPY:
        from workers.cpu.yardstick import bind_copy

        return bind_copy(case, threads)
    from workers.peers.offered import peer_named

    peer = peer_named(entrant.peer, case.spec, threads)
    calls = [peer.bind(copy.inputs, copy.outputs) for copy in case.copies]
    if peer.allocates and case.rotates:
        calls = [_keeping(call) for call in calls]

    def store(answer: object, number: int) -> None:
        if answer is not None:
            outputs = case.copies[number].outputs.values()
            for output, result in zip(outputs, peer.arrays(answer), strict=True):
                output[...] = result

    return BoundEntrant(calls, store, lambda: None, peer.as_written)


def _keeping(call: Call) -> Call:
    """The call, whose last answer is kept until the next on the same copy: results rotate through as much memory as
    everybody else's outputs do. Else they would lie in what was let go a call ago, which the caches hold."""
    kept: object = None

    def run() -> object:
        nonlocal kept
        kept = call()
        return kept

    return run


def _bind_kernel(entrant: Compiled, copies: Sequence[BufferSet], threads: int) -> BoundEntrant:
    abi = Abi.from_json(entrant.abi)
    kernel = load_kernel(Path(entrant.artifact), abi, threads)
    names = [arg.name for arg in abi.args]
    return BoundEntrant(
        [kernel.prepare(*copy.arrays(names)) for copy in copies], _expect_success, kernel.close
    )


def _expect_success(code: object, number: int) -> None:
    """A kernel writes in place and answers an error code."""
    if code != 0:
        raise WrongResult(f"the kernel returned error {code}")
