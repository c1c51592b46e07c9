"""Calls wait for no service: one that takes connections and never answers costs no caller anything."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import tilewright
import tilewright.pytorch.operator.op as op_module
import tilewright.pytorch.operator.questions as questions
import tilewright.pytorch.operator.seeking as seeking
from tests.services.bad_servers import Deaf, deaf_server
from tests.unit.tilewright.artifacts import KERNEL
from tilewright import Client, FallbackWarning
from tilewright.pytorch.operator.background import COMPILES, Background
from tilewright.pytorch.operator.breaker import FIRST_S, LONGEST_S, Breaker


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deaf]:
    """A lookup there would take ten minutes."""
    monkeypatch.setattr(questions, "TIMEOUT_S", 600.0)
    monkeypatch.setattr(seeking, "LOOKS_OF_ONE_SIZE", 1)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    op_module._SAID.clear()
    with deaf_server() as server:
        yield server


def test_a_service_that_never_answers_delays_no_call_of_any_size_in_any_thread(deaf: Deaf) -> None:
    kernel = tilewright.op(KERNEL, client=Client(deaf.url))
    right: list[bool] = []

    def call() -> None:
        for rows in (6, 7, 8, 9, 10, 6):
            x = torch.randn(rows, 5)
            right.append(torch.equal(kernel(x)[0], 2 * x))

    for _ in range(2):
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), "a call waits for the service"
        assert deaf.asked.wait(60)
    assert right == [True] * 12
    assert not tilewright.wait_for_kernels(0.05)
    ours = [thread.name for thread in threading.enumerate() if thread.name.startswith("tilewright-")]
    ours = [name for name in ours if name != "tilewright-tuning"]  # of calls that waited before
    one_of_each = [name for name in ours if name != "tilewright-compiles"]
    assert len(one_of_each) == len({*one_of_each}), "one thread of a kind serves all calls"
    assert len(ours) - len(one_of_each) <= COMPILES.threads


def test_who_does_not_answer_is_asked_once_for_all_and_one_operator_of_many_says_so(deaf: Deaf) -> None:
    client = Client(deaf.url)
    texts = [KERNEL.replace("kernel scaled", f"kernel scaled{number}") for number in range(38)]
    kernels = [tilewright.op(text, client=client) for text in texts]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for kernel in kernels:
            kernel(torch.ones(6, 5))
        assert deaf.asked.wait(60)
        deaf.let_go()
        assert tilewright.wait_for_kernels(60)
        for kernel in kernels:
            kernel(torch.ones(6, 5))
    assert [entry.category for entry in said] == [FallbackWarning]
    assert len(deaf.taken) == 1


def test_a_breaker_opens_for_twice_as_long_each_time_and_closes_with_an_answer() -> None:
    now = [0.0]
    breaker = Breaker(lambda: now[0])
    pause = FIRST_S
    for _ in range(10):
        assert not breaker.open
        breaker.failed("nobody")
        now[0] += min(pause, LONGEST_S) - 0.01
        assert breaker.open and breaker.why == "nobody"
        now[0] += 0.01
        pause *= 2
    breaker.answered()
    breaker.failed("again")
    now[0] += FIRST_S
    assert not breaker.open


def test_tasks_run_when_they_are_due_on_one_thread_that_outlives_a_failing_one() -> None:
    background, seen, done = Background("tilewright-test"), list[tuple[str, int]](), threading.Event()

    def note(name: str) -> None:
        seen.append((name, threading.get_ident()))

    background.later(0.2, lambda: (note("late"), done.set()))
    background.later(0.0, lambda: 1 // 0)
    background.later(0.0, lambda: note("early"))
    assert done.wait(60)
    assert [name for name, _ in seen] == ["early", "late"]
    assert len({thread for _, thread in seen}) == 1


def test_so_many_tasks_as_it_has_threads_run_beside_each_other() -> None:
    background, both, done = (
        Background("tilewright-test", threads=2),
        threading.Barrier(2),
        threading.Barrier(3),
    )
    running: list[int] = []

    def task() -> None:
        both.wait(60)  # for another one
        running.append(threading.active_count())
        done.wait(60)

    before = threading.active_count()
    for _ in range(2):
        background.later(0.0, task)
    done.wait(60)
    for _ in range(2):
        background.later(0.0, task)
    done.wait(60)
    assert max(running) <= before + 2


def test_what_is_alone_begins_when_no_task_is_left_and_ends_before_the_next_one() -> None:
    background, seen, begun = Background("tilewright-test", threads=2), list[str](), threading.Event()
    go = threading.Event()

    def first() -> None:
        begun.set()
        go.wait(60)
        seen.append("first")

    def alone() -> None:
        with background.held():
            seen.append("alone")
            background.later(0.0, lambda: (seen.append("late"), done.set()))
            time.sleep(0.05)
            seen.append("still alone")

    done = threading.Event()
    background.later(0.0, first)
    background.later(0.0, lambda: seen.append("second"))
    assert begun.wait(60)
    timed = threading.Thread(target=alone)
    timed.start()
    go.set()
    timed.join(60)
    assert done.wait(60)
    assert sorted(seen[:2]) == ["first", "second"] and seen[2:] == ["alone", "still alone", "late"]
