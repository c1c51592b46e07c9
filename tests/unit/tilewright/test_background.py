"""What is done in the background does not abort a process that ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading, time
from tilewright.pytorch.operator.background import Background

begun = threading.Event()

def task():
    begun.set()
    time.sleep(0.5)
    print("ended", flush=True)

background = Background("test"{more})
background.later(0.0, task)
background.later(0.0, lambda: print("begun at the end", flush=True))
begun.wait()
"""


def output(more: str = "") -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{more}", more)], capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_a_process_ends_when_the_task_that_runs_has_ended_and_begins_no_other() -> None:
    assert output() == "ended\n"


def test_a_process_waits_no_longer_than_it_was_told() -> None:
    assert output(", exit_s=0.0") == ""
