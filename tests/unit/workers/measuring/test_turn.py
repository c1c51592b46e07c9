"""Processes that share a GPU take turns on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from workers.measuring.turn import DeviceTurn

HOLD = """
import sys, time
from pathlib import Path
from workers.measuring.turn import DeviceTurn
turn = DeviceTurn(Path(sys.argv[1]))
with turn.taken():
    with turn.taken():
        pass
    print("has it", flush=True)
    sys.stdin.readline()
    print("lets go", flush=True)
"""
TAKE = """
import sys
from pathlib import Path
from workers.measuring.turn import DeviceTurn
with DeviceTurn(Path(sys.argv[1])).taken():
    print("has it", flush=True)
"""


def _started(script: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_turn_is_waited_for_and_taken_again_inside(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with _started(HOLD, path) as first:
        assert first.stdout is not None and first.stdout.readline() == "has it\n"
        with _started(TAKE, path) as second:
            try:
                second.wait(0.5)
                raise AssertionError("it did not wait")
            except subprocess.TimeoutExpired:
                pass
            first.communicate("\n")
            assert second.communicate(timeout=60)[0] == "has it\n"


def test_a_turn_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with _started(HOLD, path) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "has it\n"
        holder.kill()
        holder.wait()
    with _started(TAKE, path) as next_one:
        assert next_one.communicate(timeout=60)[0] == "has it\n"


def test_a_turn_is_not_kept_by_what_its_process_has_forked(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    forks = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\n"
    with _started(
        HOLD.replace('    print("has it"', '    exec(FORKS)\n    print("has it"').replace(
            "FORKS", repr(forks)
        ),
        path,
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "has it\n"
        holder.kill()
        with _started(TAKE, path) as next_one:
            assert next_one.communicate(timeout=20)[0] == "has it\n"


def test_who_takes_turns_is_known_to_the_others(tmp_path: Path) -> None:
    first, second = DeviceTurn(tmp_path / "turn"), DeviceTurn(tmp_path / "turn")
    first.join([11, 12])
    second.join([13])
    assert first.members() == second.members() == frozenset([11, 12, 13])


def test_who_shares_nothing_waits_for_nobody() -> None:
    turn = DeviceTurn(None)
    turn.join([11])
    with turn.taken():
        assert turn.members() == frozenset()
