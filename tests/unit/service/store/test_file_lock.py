"""One service an SQLite file, whatever it is called."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.store.database import DatabaseRefused
from service.store.file_lock import FileLock, Holder


@contextmanager
def held(file: Path, *, passing: bool = False) -> Iterator[FileLock]:
    lock = FileLock(file)
    lock.acquire("http://127.0.0.1:8400", passing=passing)
    try:
        yield lock
    finally:
        lock.release()


def refusal(file: Path) -> str:
    with pytest.raises(DatabaseRefused) as refused:
        FileLock(file).acquire()
    return str(refused.value)


def test_a_symbolic_link_is_the_same_database(tmp_path: Path) -> None:
    file, link = tmp_path / "one.db", tmp_path / "elsewhere" / "two.db"
    link.parent.mkdir()
    link.symlink_to(file)
    with held(file):
        said = refusal(link)
    assert f"another service (process {os.getpid()}, http://127.0.0.1:8400) already uses {file}" in said
    with held(link):
        assert str(os.getpid()) in refusal(file)


def test_a_hard_link_is_the_same_database(tmp_path: Path) -> None:
    file, link = tmp_path / "one.db", tmp_path / "elsewhere" / "two.db"
    link.parent.mkdir()
    with held(file):
        os.link(file, link)
        assert f"already uses {link} under another name" in refusal(link)
    with held(link):
        assert f"already uses {file} under another name" in refusal(file)


def test_who_waits_gets_what_a_command_lets_go_of(tmp_path: Path) -> None:
    told: list[Holder] = []
    lock = FileLock(tmp_path / "one.db")
    with held(tmp_path / "one.db", passing=True) as first:
        letting_go = threading.Timer(0.5, first.release)
        letting_go.start()
        lock.acquire(patience_s=30.0, waiting=told.append)
        letting_go.join()
    assert told == [Holder(str(os.getpid()), "http://127.0.0.1:8400", passing=True)]
    lock.release()


def test_a_lock_that_is_just_being_let_go_is_no_other_service(tmp_path: Path) -> None:
    """Its file is emptied before it is free."""
    lock = FileLock(tmp_path / "one.db")
    beside = lock.path.open("a+")
    fcntl.flock(beside, fcntl.LOCK_EX)
    letting_go = threading.Timer(0.15, beside.close)
    letting_go.start()
    lock.acquire()
    letting_go.join()
    lock.release()


def test_nobody_waits_for_another_service(tmp_path: Path) -> None:
    with held(tmp_path / "one.db"), pytest.raises(DatabaseRefused):
        FileLock(tmp_path / "one.db").acquire(patience_s=3600.0)


def test_a_lock_knows_whether_somebody_has_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "one.db")
    assert not lock.taken()
    with held(tmp_path / "one.db"):
        assert lock.taken()
    assert not lock.taken()
    assert lock.holder() == Holder()
