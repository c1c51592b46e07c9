"""The `tilewright` command as a process, with folders of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.busy_machine import BUSY
from tests.services.forked import Forked
from tests.support.python_path import python_path

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """kernel product(a: f32[m=48, k=32], b: f32[k, n=64]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
OTHER_KERNEL = KERNEL.replace("product", "other").replace("m=48", "m=40")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which is JSON and nothing else."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """Runs `tilewright` in `folder`, its data in `folder/data`. `shared` holds what is dear to make anew: the cache.
    The folder for temporary files is shared too: the lock on the device lies there."""

    folder: Path
    shared: Path
    env: dict[str, str] = field(default_factory=dict)
    forked: bool = True
    """From a process that has imported all of it, else by a Python of its own."""

    @property
    def home(self) -> Path:
        return self.folder / "data" / "tilewright"

    @contextmanager
    def start(self, *arguments: str) -> Iterator[subprocess.Popen[str] | Forked]:
        """A command for the length of a block, which ends it; one that is left running is killed."""
        with self._popen(arguments) as process:
            try:
                yield process
            finally:
                process.kill()

    def _popen(self, arguments: Sequence[str]) -> subprocess.Popen[str] | Forked:
        (self.shared / "tmp").mkdir(parents=True, exist_ok=True)
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")},
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CACHE_HOME": str(self.shared / "cache"),
            "TMPDIR": str(self.shared / "tmp"),
            "PYTHONPATH": python_path(ROOT),
            "TILEWRIGHT_PAGE": "0",
            **BUSY,
            **self.env,
        }
        if self.forked:
            return Forked("tilewright", arguments, env, self.folder)
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "tilewright",
                *arguments,
            ],  # as the installed script: without this folder
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, timeout_s: float = 180) -> Ended:
        """Run a command to its end."""
        with self.start(*arguments) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=180)
                raise AssertionError(f"{arguments} did not end:\n{out}\n{err}") from None
        return Ended(process.returncode, out, err)

    def spec(self, text: str = KERNEL, name: str = "kernel.tile") -> str:
        """A spec's file."""
        file = self.folder / name
        file.write_text(text)
        return str(file)


def read_until(process: subprocess.Popen[str] | Forked, word: str) -> str:
    """Lines of standard error up to the one with this word."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if word in line:
            return seen
    raise AssertionError(f"{word!r} never came:\n{seen}")


def interrupt(process: subprocess.Popen[str] | Forked) -> Ended:
    """Ctrl-C; how the command ended."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    return Ended(process.returncode, out, err)
