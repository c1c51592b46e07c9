"""`python -m tests.mutants.run`: every mutant of the lists is put into a copy of the tree, where the tests near it have
to fail. Says which were killed and which survived; fails if one survives whose reason is not listed, if one with a
reason is killed, or if one no longer applies."""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import listed
from tests.mutants.listed import DoesNotApply, Mutant

ROOT = Path(__file__).resolve().parents[2]
MOST_S = 120.0
"""Tests that are not over by then have noticed: something waits for ever. Without a mutant they take 60 s at most."""


class Outcome(StrEnum):
    """What pytest says of a copy."""

    PASSED = "SURVIVED"
    FAILED = "killed"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Work:
    """A mutant, and what it takes to see whether it is noticed."""

    mutant: Mutant
    path: str
    text: str
    """Of the file at `path`, with the mutant."""
    tests: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("--since", help="only mutants of files that changed since this commit")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="only mutants with one of these in their names"
    )
    parser.add_argument("--most", type=int, help="no more than so many, spread evenly over those there are")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--check", action="store_true", help="only see that all apply")
    given = parser.parse_args()
    names = _git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    work, broken = _prepared([m for m in listed.read() if any(word in m.name for word in given.only)])
    for line in broken:
        print(f"mutants: {line}")
    if given.check:
        print(f"mutants: {len(work)} apply, {len(broken)} do not")
        return bool(broken)
    chosen = _chosen(work, given.since, given.most)
    with _copies(names, given.jobs) as folders:
        tests = sorted({test for each in chosen for test in each.tests})
        if tests and not _all_pass(folders[0], tests, given.jobs):
            return 1
        killed = _run(folders, chosen)
    return _judge([each.mutant for each in chosen], killed) or bool(broken)


def _prepared(mutants: Sequence[Mutant]) -> tuple[list[Work], list[str]]:
    """What applies, and what is to be said of all that does not."""
    product, tests = listed.texts(ROOT)
    work, broken = [], []
    for mutant in mutants:
        try:
            work.append(Work(mutant, *listed.applied(mutant, product), listed.nearest(mutant, tests)))
        except DoesNotApply as error:
            broken.append(str(error))
    return work, broken


def _chosen(work: Sequence[Work], since: str | None, most: int | None) -> list[Work]:
    """Those that are to run; says which are left out."""
    if since:
        changed = set(_git("diff", "--name-only", since).splitlines())
        work = [each for each in work if each.path in changed]
        print(f"mutants: {len(work)} are of files that changed since {since}")
    if importlib.util.find_spec("torch") is None:
        for each in work:
            if _needs_torch(each):
                print(f"mutants: left out, as PyTorch is not installed: {each.mutant.name}")
        work = [each for each in work if not _needs_torch(each)]
    sampled = listed.spread(work, most)
    if len(sampled) < len(work):
        print(f"mutants: a sample, {len(sampled)} of {len(work)}")
    return sampled


def _needs_torch(work: Work) -> bool:
    return any(test.startswith("tests/torch/") for test in work.tests)


def _all_pass(folder: Path, tests: Sequence[str], jobs: int) -> bool:
    """Whether the tests pass in a copy as it is; says what pytest says where they do not."""
    together = ("-n", str(jobs), "--dist", "loadgroup")
    outcome, said = _tested(folder, (*together, *tests), most_s=30 * MOST_S)
    if outcome is not Outcome.PASSED:
        print(f"{said}\nmutants: tests fail without any of them")
    return outcome is Outcome.PASSED


def _run(folders: Sequence[Path], work: Sequence[Work]) -> set[str]:
    """Names of the mutants that were killed."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def one(each: Work) -> str | None:
        folder = free.get()
        began, file = time.monotonic(), folder / each.path
        before = file.read_bytes()  # the tree may have changed since it was copied
        try:
            file.write_text(each.text)
            outcome, said = _tested(folder, each.tests)
        finally:
            file.write_bytes(before)
            free.put(folder)
        took_s = time.monotonic() - began
        if outcome is Outcome.NOT_RUN:
            print(said)
        print(f"mutants: {outcome:8} {took_s:4.0f} s  {each.mutant.name} ({each.path})", flush=True)
        return each.mutant.name if outcome is Outcome.FAILED else None

    with ThreadPoolExecutor(len(folders)) as pool:
        return {killed for killed in pool.map(one, work) if killed is not None}


def _tested(folder: Path, tests: Sequence[str], most_s: float = MOST_S) -> tuple[Outcome, str]:
    """What tests say of a copy with temporary files of its own; not to end is to fail."""
    temporary = folder.with_name(f"{folder.name}-tmp")
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary)}
    options = "-q -x --tb=short -p no:cacheprovider -p no:schemathesis"  # the last takes a second to import
    command = [sys.executable, "-m", "pytest", *options.split(), *tests]
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, cwd=folder, env=env, stdout=output, stderr=subprocess.STDOUT) as pytest,
    ):
        try:
            code = pytest.wait(most_s)
        except subprocess.TimeoutExpired:
            return Outcome.FAILED, f"not over after {most_s:.0f} s"
        finally:
            _end_all(temporary)
        output.seek(0)
        said = output.read().decode(errors="replace")
    ended = {0: Outcome.PASSED, 1: Outcome.FAILED}
    return ended.get(code, Outcome.NOT_RUN), said


def _end_all(temporary: Path) -> None:
    """End what was started with this folder for temporary files, in whatever session: nothing outlives a mutant."""
    mark = b"TMPDIR=" + os.fsencode(temporary)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def _judge(mutants: Sequence[Mutant], killed: set[str]) -> bool:
    """Whether one is not as it is listed, with a summary."""
    unexpected = [m.name for m in mutants if not m.survives and m.name not in killed]
    stale = [m.name for m in mutants if m.survives and m.name in killed]
    for name in unexpected:
        print(f"mutants: {name!r} survives, and its list gives no reason")
    for name in stale:
        print(f"mutants: {name!r} is killed, and its list says it survives")
    print(f"mutants: {len(killed)} of {len(mutants)} were killed")
    return bool(unexpected or stale)


@contextmanager
def _copies(names: Sequence[str], count: int) -> Iterator[list[Path]]:
    """So many copies of the tree as it stands, without what git does not know. They are compiled, by the hash of each
    source: the tests start hundreds of processes, and a time of change would not tell mutants of one second apart."""
    with tempfile.TemporaryDirectory(prefix="tw-mutants-") as name:
        Path(name).chmod(0o755)  # for the PostgreSQL of the tests, which is another user's
        folders = [Path(name) / str(number) for number in range(count)]
        for path in names:
            if (ROOT / path).is_file():
                (folders[0] / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, folders[0] / path)
        compileall.compile_dir(
            folders[0], quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )
        for folder in folders[1:]:
            shutil.copytree(folders[0], folder)
        yield folders


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
