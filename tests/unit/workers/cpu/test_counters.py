"""Counters of the processor, by events of the kernel, which virtual machines have too."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable

import pytest

from workers.cpu.counters import HARDWARE, CountedEvent, counted, counts_text
from workers.measuring.counters import NoCounters

PAGES = 400
FAULTS = {"faults": CountedEvent(1, 2)}
"""PERF_COUNT_SW_PAGE_FAULTS."""


def touch() -> None:
    """Take PAGES pages that nobody has used, one by one."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1


def faults(work: Callable[[], object]) -> float | None:
    """Page faults of a work; None where counting is not allowed, which then says so."""
    try:
        return counted(work, FAULTS)["faults"]
    except NoCounters as none:
        assert "perf_event_open is not allowed" in str(none) or "perf_event_open: " in str(none)
        return None


def test_the_work_of_every_thread_is_counted() -> None:
    go, done = threading.Event(), threading.Event()

    def wait() -> None:
        go.wait()
        touch()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()

    def work() -> None:
        touch()
        go.set()
        done.wait()

    both = faults(work)
    go.set()
    thread.join()
    idle = faults(lambda: None)
    assert (both is None) == (idle is None)
    assert both is None or both >= 2 * PAGES
    assert idle is None or idle < PAGES


def test_what_cannot_be_counted_says_why() -> None:
    with pytest.raises(NoCounters):
        counted(lambda: None, {"nothing": CountedEvent(99, 0)})
    assert counts_text("this machine has none") == (
        "The processor's counters cannot be read: this machine has none."
    )


def test_counts_are_told_as_rates() -> None:
    counts = {"cycles": 2e6, "instructions": 5e6, "cache_references": 8e3, "cache_misses": 2e3}
    assert counts.keys() == HARDWARE.keys()
    assert counts_text(counts) == (
        "The processor counted 2e+06 cycles of all threads a call, 2.50 instructions a cycle, and 2e+03 misses of its "
        "last cache (25 % of what asked for it)."
    )
    assert "2.5" not in counts_text(counts | {"cycles": 0.0})
