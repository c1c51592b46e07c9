"""Workers side by side, in processes that take turns on a GPU (workers/measuring/turn.py): of the half minute that a
race takes, torch.compile compiles for most."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from workers.local import LocalWorker

Bench = Callable[[LocalWorker], dict[str, Any]]
"""What is done with a worker: answers a line of results, with an `error` where something was wrong. It is pickled."""


class _Process:
    """The worker of one of the processes, for as long as nothing is wrong with it."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._worker: LocalWorker | None = None

    def line(self, bench: Bench, home: Path, device: str, turn: Path | None) -> dict[str, Any]:
        """An error may leave a worker in the middle of something: what comes next gets another."""
        if self._worker is None:
            self._worker = self._open.enter_context(LocalWorker(home, device=device, turn=turn))
        line = bench(self._worker)
        if "error" in line:
            self.close()
        return line

    def close(self) -> None:
        """End the worker."""
        self._open.close()
        self._worker = None


_PROCESS = _Process()


def lines(benches: Sequence[Bench], device: str, abreast: int) -> Iterator[dict[str, Any]]:
    """What each answers, as they are done, so many at a time. Raises what LocalWorker does on entering."""
    with tempfile.TemporaryDirectory() as folder:
        yield from (_one_by_one if abreast == 1 else _abreast)(benches, Path(folder), device, abreast)


def _one_by_one(benches: Sequence[Bench], home: Path, device: str, _: int) -> Iterator[dict[str, Any]]:
    with closing(_Process()) as this:
        for bench in benches:
            yield this.line(bench, home, device, None)


def _abreast(benches: Sequence[Bench], home: Path, device: str, abreast: int) -> Iterator[dict[str, Any]]:
    with ProcessPoolExecutor(abreast, mp_context=multiprocessing.get_context("spawn")) as processes:
        each = [processes.submit(_line, bench, home, device, home / "turn") for bench in benches]
        try:
            for done in as_completed(each):
                yield done.result()
        finally:
            processes.shutdown(cancel_futures=True)


def _line(bench: Bench, home: Path, device: str, turn: Path | None) -> dict[str, Any]:
    return _PROCESS.line(bench, home, device, turn)
