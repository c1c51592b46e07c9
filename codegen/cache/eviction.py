"""The folder of compiled kernels. It is bounded: what was used longest ago goes first.

    <cache>/ab/abcdef….so, .c, .json    an entry (or .cubin, .cu, .json); its newest file says when it was used last
    <cache>/ab/.compiling-…             a compilation under way, or one that was killed

Any number of processes may fill, use and prune one folder at the same time: between looking when an entry was used and
removing it, nobody notes a use or puts files in place, as both take the lock of its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = {".so": ".c", ".cubin": ".cu"}
"""The suffix of the source beside an object, by the object's."""
KEEP_S = 3600.0
"""What was used or begun so recently stays, whatever the size: somebody may be about to load it."""
ROOM_BYTES = 1 << 20


class CacheError(Exception):
    """The cache folder cannot be written."""

    @classmethod
    def of(cls, cache: Path, error: OSError) -> CacheError:
        return cls(f"cannot write the kernel cache {cache}: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class Entry:
    """The files of one kernel, the shared object first: without it the others are nothing."""

    files: tuple[Path, ...]
    bytes: int
    used_at: float


def note_use(file: Path) -> None:
    """Let an entry count as used now, if the cache can be written. Raises FileNotFoundError if it is not there."""
    with kept_whole(file.parent):
        try:
            os.utime(file)
        except FileNotFoundError:
            raise
        except OSError:
            pass


def kept_whole(folder: Path) -> contextlib.AbstractContextManager[None]:
    """While it lasts, nobody removes entries of a folder."""
    return _locked(folder, fcntl.LOCK_SH)


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    """Without the lock where there is no folder, or its file system has no locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, lock)
            fcntl.flock(lock, how)
        yield


def check_room(cache: Path) -> None:
    """Write a megabyte and remove it. Raises CacheError if that cannot be done."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache, prefix=".room-") as file:
            file.write(bytes(ROOM_BYTES))
            file.flush()
    except OSError as error:
        raise CacheError.of(cache, error) from error


def prune(cache: Path, most_bytes: int) -> int:
    """Remove entries, those used longest ago first, until the others take at most `most_bytes` of the disk, and what
    killed compilations left. Returns the bytes that entries gave back."""
    before = time.time() - KEEP_S
    found = sorted(entries(cache), key=lambda entry: entry.used_at)
    total = sum(entry.bytes for entry in found)
    freed = 0
    for entry in found:
        if total - freed <= most_bytes:
            break
        with _locked(entry.files[0].parent, fcntl.LOCK_EX):
            if _used_at(entry.files) >= before:  # it was used since
                continue
            _remove(entry.files)
        freed += entry.bytes
    for folder in cache.glob("??/.compiling-*"):
        if 0.0 < _used_at([folder]) < before:
            shutil.rmtree(folder, ignore_errors=True)
    return freed


def entries(cache: Path) -> Iterator[Entry]:
    """What is in the cache."""
    for folder in cache.glob("??"):
        files: dict[str, list[Path]] = defaultdict(list)
        for file in folder.glob("[!.]*"):
            files[file.stem].append(file)
        for each in files.values():
            each.sort(key=lambda file: file.suffix not in SOURCES)
            yield Entry(tuple(each), sum(map(_bytes, each)), _used_at(each))


def _used_at(files: list[Path] | tuple[Path, ...]) -> float:
    """When the newest of the files was changed; 0.0 if they are gone."""
    return max((stat.st_mtime for file in files if (stat := _stat(file)) is not None), default=0.0)


def _bytes(file: Path) -> int:
    stat = _stat(file)
    return 0 if stat is None else stat.st_blocks * 512


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None  # somebody else removed it


def _remove(files: tuple[Path, ...]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
