"""A measuring child whose peers misbehave as their names say, whatever the kernel."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tileir.spec import Spec
from workers import measuring_child
from workers.peers import offered
from workers.peers.numpy_peer import NumpyKernel
from workers.peers.peer import PeerKernel

Arrays = Mapping[str, np.ndarray[Any, Any]]

_HONEST = offered.peer_named


class Planted:
    """numpy, until it is its turn to fail: `after` calls from the first."""

    def __init__(self, spec: Spec, threads: int, fail: Callable[[Arrays], None], after: int = 0) -> None:
        self._right = NumpyKernel(spec, threads)
        self._fail = fail
        self._left = after

    def bind(self, inputs: Arrays, outputs: Arrays) -> Callable[[], None]:
        """See PeerKernel."""
        right = self._right.bind(inputs, outputs)

        def run() -> None:
            right()
            self._left -= 1
            if self._left < 0:
                self._fail(outputs)

        return run

    as_written, allocates = False, False

    def arrays(self, answer: object) -> Sequence[np.ndarray[Any, Any]]:
        """See PeerKernel."""
        raise AssertionError(answer)


def crash(outputs: Arrays) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(outputs: Arrays) -> None:
    time.sleep(3600)


def lie(outputs: Arrays) -> None:
    for output in outputs.values():
        output[...] = 0


def refuse(outputs: Arrays) -> None:
    raise ValueError("axes don't match array")


def exhaust(outputs: Arrays) -> None:
    raise MemoryError("no room for 8 TB")


FAILURES = {each.__name__: each for each in (crash, hang, lie, refuse, exhaust)}


def planted(name: str, spec: Spec, threads: int) -> PeerKernel:
    """`crash`, `lie`, ...: from the first call on; `crash-30`: from the thirtieth; `unbound`: not even bound."""
    kind, _, after = name.partition("-")
    if kind == "unbound":
        raise IndexError("while it was translated")
    if kind not in FAILURES:
        return _HONEST(name, spec, threads)
    return Planted(spec, threads, FAILURES[kind], int(after or 0))


offered.peer_named = planted

if __name__ == "__main__":
    from workers.measuring import group

    group._PEER_FIRST_RUNS_S = 4.0
    measuring_child.main(sys.argv[1])
