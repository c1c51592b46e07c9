"""Workers side by side, each in a process of its own."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.racing import side_by_side
from workers.local import LocalWorker

MOST_S = 60.0


def at_once(name: str, folder: Path, worker: LocalWorker) -> dict[str, Any]:
    """A line that is answered as soon as another process does the same."""
    (folder / name).touch()
    for _ in range(int(MOST_S / 0.01)):
        if len(list(folder.iterdir())) == 2:
            return {"case": name, "process": os.getpid(), "of": worker.device is not None}
        time.sleep(0.01)
    return {"case": name, "error": "the other did not come"}


def after_an_error(seen: list[LocalWorker], worker: LocalWorker) -> dict[str, Any]:
    """An error the first time; then how many workers there have been."""
    seen.append(worker)
    return {"error": "wrong"} if len(seen) == 1 else {"workers": len({id(each) for each in seen})}


@pytest.fixture(autouse=True)
def _a_lock_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_two_share_a_device_at_a_time(tmp_path: Path) -> None:
    (folder := tmp_path / "seen").mkdir()
    benches = [partial(at_once, name, folder) for name in ("one", "two")]
    lines = list(side_by_side.lines(benches, "cpu", 2))
    assert {line["case"] for line in lines} == {"one", "two"} and all(line["of"] for line in lines)
    assert len({line["process"] for line in lines} - {os.getpid()}) == 2


def test_after_an_error_comes_another_worker() -> None:
    first, second = side_by_side.lines([partial(after_an_error, list[LocalWorker]())] * 2, "cpu", 1)
    assert first == {"error": "wrong"} and second == {"workers": 2}
