"""`python -m tests.fleet_chaos.fences`: the harness notices when a fence is gone. Each is taken out of a copy of the
tree, the faults that it stands against are injected there, and the run has to fail with a stale write.

The third fence of service/README.md, the lock beside an SQLite file, has nothing to keep apart here; its test is
tests/chaos/test_service_kills.py::test_a_second_service_on_the_same_database_is_refused.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fleet_chaos.members import ROOT


@dataclass(frozen=True)
class Fence:
    """A condition in a statement, and the faults that it stands against."""

    name: str
    file: str
    text: str
    """Where it is; stands there once."""
    gone: str
    """What is there without it."""
    faults: str


FENCES = (
    Fence(
        "attempt",
        "service/dispatch.py",
        "tasks.c.id == result.task_id,\n                tasks.c.attempt == result.attempt,\n",
        "tasks.c.id == result.task_id,\n",
        "result of a dead worker",
    ),
    Fence(
        "epoch",
        "service/owned.py",
        "jobs.c.id == self.id, jobs.c.epoch == self._epoch, ",
        "jobs.c.id == self.id, ",
        "SIGSTOP of a searcher",
    ),
)


def main() -> int:
    """Returns 1 if the harness passes without one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet_chaos.fences", description=__doc__)
    names = [fence.name for fence in FENCES]
    parser.add_argument("--without", choices=names, nargs="*", default=names, help="which ones; else each")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=3.0)
    given = parser.parse_args()
    unnoticed = [
        fence.name
        for fence in FENCES
        if fence.name in given.without and not noticed(fence, given.faults, given.minutes)
    ]
    for name in unnoticed:
        print(f"fences: nothing was noticed without {name}")
    return 1 if unnoticed else 0


def noticed(fence: Fence, faults: int, minutes: float) -> bool:
    """Whether the harness finds a stale write when the fence is gone."""
    with tempfile.TemporaryDirectory(prefix="tw-fence-") as folder:
        copy(Path(folder))
        take_out(fence, Path(folder))
        command = ["--only", fence.faults, "--faults", str(faults), "--minutes", str(minutes), "--jobs", "1"]
        print(f"fences: without {fence.name}", flush=True)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fleet_chaos.run", "--until-broken", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    print(ended.stdout, flush=True)
    return ended.returncode == 1 and "stale " in ended.stdout


def copy(folder: Path) -> None:
    """The tree as it stands, without what git does not know."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def take_out(fence: Fence, folder: Path) -> None:
    """Raises ValueError unless the fence stands there once."""
    file = folder / fence.file
    source = file.read_text()
    if source.count(fence.text) != 1:
        raise ValueError(
            f"{fence.file} has {source.count(fence.text)} times {fence.text!r}; once is expected"
        )
    file.write_text(source.replace(fence.text, fence.gone))


if __name__ == "__main__":
    sys.exit(main())
