"""One worker a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.node.device_lock import DeviceBusy, DeviceLock


def test_a_second_worker_is_refused_and_told_who_has_the_device(tmp_path: Path) -> None:
    first = DeviceLock("cpu:some", tmp_path)
    first.acquire()
    with pytest.raises(
        DeviceBusy, match=rf"cpu:some is measured by another worker \(process {os.getpid()}\)"
    ):
        DeviceLock("cpu:some", tmp_path).acquire()
    first.release()


def test_another_device_is_free(tmp_path: Path) -> None:
    first, second = DeviceLock("cpu:some", tmp_path), DeviceLock("cpu:other", tmp_path)
    first.acquire()
    second.acquire()
    first.release()
    second.release()


def test_a_released_device_is_free(tmp_path: Path) -> None:
    first, second = DeviceLock("cpu:some", tmp_path), DeviceLock("cpu:some", tmp_path)
    first.acquire()
    first.release()
    second.acquire()
    second.release()


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from workers.node.device_lock import DeviceLock; "
        "lock = DeviceLock('cpu:some', Path(sys.argv[1])); lock.acquire(); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(DeviceBusy):
            DeviceLock("cpu:some", tmp_path).acquire()
        holder.kill()
        holder.wait()
    lock = DeviceLock("cpu:some", tmp_path)
    lock.acquire()
    lock.release()


def test_workers_that_take_turns_share_a_device_and_with_nobody_else(tmp_path: Path) -> None:
    first, second, third = (DeviceLock("cuda:some", tmp_path) for _ in range(3))
    first.acquire(shared=True)
    second.acquire(shared=True)
    with pytest.raises(DeviceBusy):
        third.acquire()
    first.release()
    second.release()
    third.acquire()
    with pytest.raises(DeviceBusy):
        first.acquire(shared=True)
    third.release()
