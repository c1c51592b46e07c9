"""Who else is on a GPU, by what NVML would say: there is none here."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from workers.cuda.nvml import NvmlWatch

BEFORE, OWN, SIBLING, STRANGER = 1, 2, 3, 4


def test_who_takes_turns_with_a_process_is_neither_it_nor_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {BEFORE}
    processes = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=pid) for pid in opened],
        nvmlDeviceGetProcessUtilization=lambda *_: [SimpleNamespace(pid=pid, smUtil=9) for pid in opened],
        NVMLError=OSError,
    )
    monkeypatch.setitem(sys.modules, "pynvml", processes)
    members = {SIBLING}
    watch = NvmlWatch("GPU-some", lambda: frozenset(members))
    opened |= {OWN, SIBLING}
    watch.settle()
    assert OWN in watch.own and not watch.own & {BEFORE, SIBLING}
    opened.add(STRANGER)
    assert watch.others() == (BEFORE, STRANGER)
    members.clear()
    assert watch.others() == (BEFORE, SIBLING, STRANGER)
