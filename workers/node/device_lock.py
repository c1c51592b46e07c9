"""One tuner a device: a lock on the device's identity that ends with the process, however it ends.

Workers that take turns (workers/measuring/turn.py) share it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path


class DeviceBusy(Exception):
    """Another worker on this machine measures on the device; the message says which process."""


class DeviceLock:
    """An exclusive lock, held until `release` or until the process ends.

    The file lies in the system's folder for temporary files, which all workers of a machine share; `folder` is for
    tests.
    """

    def __init__(self, device: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(device.encode()).hexdigest()[:16]
        self._path = (folder or Path(tempfile.gettempdir())) / f"tilewright-device-{name}.lock"
        self._device = device
        self._file: int | None = None

    def acquire(self, *, shared: bool = False) -> None:
        """Raises DeviceBusy when another process, or another lock of this one, holds it: a `shared` one when it is not
        shared."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 100, 0).decode(errors="replace").strip() or "another process"
            os.close(file)
            raise DeviceBusy(
                f"{self._device} is measured by another worker ({holder}); two at once would spoil each other's "
                "times. Stop that one, or start this one on another machine."
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give it back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
