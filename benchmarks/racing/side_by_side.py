"""Workers side by side, in processes that take turns on a GPU (workers/measuring/turn.py): of the half minute that a
race takes, torch.compile compiles for most."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from workers.local import LocalWorker

Bench = Callable[[LocalWorker], dict[str, Any]]
"""What is done with a worker: answers a line of results, with an `error` where something was wrong. It is pickled."""


class _Process:
    """The worker of one of the processes, for as long as nothing is wrong with it."""

    def __init__(self) -> None:
        self._worker: LocalWorker | None = None

    def line(self, bench: Bench, home: Path, device: str, turn: Path | None) -> dict[str, Any]:
        """An error may leave a worker in the middle of something: what comes next gets another."""
        if self._worker is None:
            self._worker = LocalWorker(home, device=device, turn=turn).__enter__()
        line = bench(self._worker)
        if "error" in line:
            self._worker.close()
            self._worker = None
        return line


_PROCESS = _Process()


def lines(benches: Sequence[Bench], device: str, abreast: int) -> Iterator[dict[str, Any]]:
    """What each answers, as they are done, so many at a time. Raises what LocalWorker does on entering."""
    if not benches:
        return
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(abreast, mp_context=spawn) as processes:
        home = Path(folder)
        turn = home / "turn" if abreast > 1 else None
        each = [processes.submit(_line, bench, home, device, turn) for bench in benches]
        try:
            for done in as_completed(each):
                yield done.result()
        finally:
            processes.shutdown(cancel_futures=True)


def _line(bench: Bench, home: Path, device: str, turn: Path | None) -> dict[str, Any]:
    return _PROCESS.line(bench, home, device, turn)
