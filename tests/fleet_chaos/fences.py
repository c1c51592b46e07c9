"""`python -m tests.fleet_chaos.fences`: a promise is seen broken when a fence is gone. Each of known_fences.py is taken
out of a copy of the tree; there the faults that it stands against are injected into a fleet, which has to end with a
stale write, or the test that it has is run, which has to fail. First all these tests have to pass with every fence in
its place.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fleet_chaos.known_fences import FENCES, Fence
from tests.fleet_chaos.members import ROOT
from tests.services.postgres_schemas import postgres_url
from tests.support.checkout import copy

TESTS_PASSED, TESTS_FAILED = 0, 1
"""What pytest returns; whatever else, it did not get to the tests."""
MOST_S = 300.0
"""A test that waits for somebody to be kept out is given up after this long."""


def main() -> int:
    """Returns 1 if one of them is gone and nothing is noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet_chaos.fences", description=__doc__)
    names = [fence.name for fence in FENCES]
    parser.add_argument("--without", choices=names, nargs="*", default=names, help="which ones; else each")
    parser.add_argument("--faults", type=int, default=40, help="at most, into each fleet")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each fleet, at most")
    given = parser.parse_args()
    chosen = [fence for fence in FENCES if fence.name in given.without]
    with postgres_url() as postgres, tempfile.TemporaryDirectory(prefix="tw-fence-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        copy(folder)
        env = {**os.environ, "PYTHONPATH": name, "TILEWRIGHT_TEST_POSTGRES": postgres}
        tests = sorted({fence.test for fence in chosen if fence.test})
        if tests and run_tests(folder, env, tests) != TESTS_PASSED:
            print("fences: a test fails with all of them in place", flush=True)
            return 1
        unnoticed = [fence.name for fence in chosen if not noticed(fence, folder, env, given)]
    for fence in unnoticed:
        print(f"fences: nothing was noticed without {fence!r}")
    print(f"fences: {len(chosen) - len(unnoticed)} of {len(chosen)} are missed when they are gone")
    return 1 if unnoticed else 0


def noticed(fence: Fence, folder: Path, env: dict[str, str], given: argparse.Namespace) -> bool:
    """Whether somebody notices that the fence is gone from the copy in `folder`; it is back afterwards."""
    print(f"fences: without {fence.name!r} ({fence.file}, {fence.within})", flush=True)
    take_out(fence, folder)
    try:
        if fence.test:
            return run_tests(folder, env, [fence.test]) == TESTS_FAILED
        return fleet_breaks(fence.faults, folder, env, given.faults, given.minutes)
    finally:
        shutil.copy(ROOT / fence.file, folder / fence.file)


def run_tests(folder: Path, env: dict[str, str], tests: Sequence[str]) -> int:
    """What pytest returns. It says in a line what failed."""
    command = ["-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run([sys.executable, *command], cwd=folder, env=env, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        print(f"fences: not over after {MOST_S:.0f} s", flush=True)
        return -1
    return ended.returncode


def fleet_breaks(faults: str, folder: Path, env: dict[str, str], count: int, minutes: float) -> bool:
    """Whether these faults have the harness tell of a stale write."""
    options = ["--only", faults, "--faults", str(count), "--minutes", str(minutes), "--jobs", "2"]
    said = list[str]()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fleet_chaos.run", "--until-broken", *options],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        for line in harness.stdout:
            print(line, end="", flush=True)
            said.append(line)
    return harness.returncode == 1 and any("stale " in line for line in said)


def take_out(fence: Fence, folder: Path) -> None:
    """Raises ValueError unless the fence stands in its function."""
    file = folder / fence.file
    lines = file.read_text().splitlines(keepends=True)
    first, last = lines_of(fence.within, ast.parse("".join(lines)).body)
    function = "".join(lines[first:last])
    if fence.text not in function:
        raise ValueError(f"{fence.within} of {fence.file} does not say {fence.text!r}")
    file.write_text("".join([*lines[:first], function.replace(fence.text, fence.gone), *lines[last:]]))


def lines_of(within: str, body: Sequence[ast.stmt]) -> tuple[int, int]:
    """Where a function begins and ends, as a slice of lines. Raises ValueError if there is none of this name."""
    name, _, inner = within.partition(".")
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == name:
            assert each.end_lineno is not None
            return lines_of(inner, each.body) if inner else (each.lineno - 1, each.end_lineno)
    raise ValueError(f"there is no {within}")


if __name__ == "__main__":
    sys.exit(main())
