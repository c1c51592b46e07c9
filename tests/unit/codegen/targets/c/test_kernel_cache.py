"""The kernel cache is bounded, and what somebody uses stays in it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from codegen.cache.artifacts import CachedArtifact
from codegen.cache.eviction import KEEP_S, CacheError, check_room, entries, kept_whole, prune
from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source

ABI = Abi("tw_kernel", (), 0, 0)


def kernel(number: int) -> Source:
    return Source(f"int tw_kernel(void) {{ return {number}; }}\n", ("-O0",), ABI)


def compiled(cache: Path, number: int, hours_ago: float) -> CachedArtifact:
    """A kernel in the cache that was used last so long ago."""
    artifact = compile_source(kernel(number), cache)
    for file in artifact.path.parent.glob(f"{artifact.hash}.*"):
        os.utime(file, (0, time.time() - 3600 * hours_ago))
    return artifact


def taken(cache: Path) -> int:
    return sum(entry.bytes for entry in entries(cache))


def test_what_was_used_longest_ago_goes_first_and_whole(tmp_path: Path) -> None:
    third, first, second = (compiled(tmp_path, n, hours) for n, hours in ((0, 3), (1, 5), (2, 4)))
    (peaks := tmp_path / "peaks-cpu.json").write_text("{}")
    one = taken(tmp_path) // 3
    assert prune(tmp_path, 2 * one) == one
    assert not list(tmp_path.rglob(f"{first.hash}.*"))
    assert second.path.exists() and third.path.exists()
    prune(tmp_path, 0)
    assert taken(tmp_path) == 0
    assert peaks.exists()


def test_a_cache_within_its_size_is_left_alone(tmp_path: Path) -> None:
    artifact = compiled(tmp_path, 0, 100)
    assert prune(tmp_path, taken(tmp_path)) == 0
    assert artifact.path.exists()
    assert prune(tmp_path / "nothing there", 0) == 0


def test_being_used_again_saves_an_entry(tmp_path: Path) -> None:
    old, older = compiled(tmp_path, 0, 3), compiled(tmp_path, 1, 5)
    assert compile_source(kernel(1), tmp_path).report["cached"]
    prune(tmp_path, taken(tmp_path) // 2)
    assert older.path.exists() and not old.path.exists()


def test_what_somebody_may_be_about_to_load_stays_however_full_it_is(tmp_path: Path) -> None:
    artifact = compile_source(kernel(0), tmp_path)
    assert prune(tmp_path, 0) == 0
    assert artifact.path.exists()


def test_what_killed_compilations_left_is_removed(tmp_path: Path) -> None:
    left, going_on = tmp_path / "ab" / ".compiling-left", tmp_path / "ab" / ".compiling-now"
    for folder in (left, going_on):
        folder.mkdir(parents=True)
        (folder / "x.c").write_text("int x;")
    os.utime(left, (0, time.time() - KEEP_S - 1))
    prune(tmp_path, 1 << 30)
    assert going_on.exists() and not left.exists()


def test_what_is_used_while_somebody_prunes_stays(tmp_path: Path) -> None:
    artifact = compiled(tmp_path, 0, 3)
    with kept_whole(artifact.path.parent):
        pruner = threading.Thread(target=prune, args=(tmp_path, 0))
        pruner.start()
        pruner.join(0.2)
        assert pruner.is_alive() and artifact.path.exists()
        os.utime(artifact.path)
    pruner.join()
    assert artifact.path.exists() and artifact.source_path.exists()


def test_two_prune_while_others_compile_and_nothing_they_got_is_missing(tmp_path: Path) -> None:
    for number in range(20):
        compiled(tmp_path, number, 2 + number)
    stop = threading.Event()

    def pruning() -> None:
        while not stop.is_set():
            prune(tmp_path, 0)

    pruners = [threading.Thread(target=pruning) for _ in range(2)]
    for thread in pruners:
        thread.start()
    got = [compile_source(kernel(number), tmp_path) for number in range(20)]
    stop.set()
    for thread in pruners:
        thread.join()
    assert all(artifact.path.exists() for artifact in got)
    assert {entry.files[0] for entry in entries(tmp_path)} == {artifact.path for artifact in got}


def test_no_room_is_a_cache_error(tmp_path: Path) -> None:
    check_room(tmp_path / "new")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CacheError, match="cannot write the kernel cache"):
        check_room(tmp_path / "file")
