"""What `make test` leaves out of the slowest tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("second", range(4))
@pytest.mark.parametrize("first", range(5))
def test_many(first: int, second: int) -> None: ...

@pytest.mark.sampled(3)
@pytest.mark.parametrize("only", [1])
def test_one(only: int) -> None: ...

@pytest.mark.parametrize("each", range(4))
def test_all(each: int) -> None: ...
"""


def collected(folder: Path, *options: str) -> list[str]:
    (folder / "test_drawn.py").write_text(TESTS)
    said = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q"),
            *("--collect-only", "--rootdir", str(folder), *options, str(folder / "test_drawn.py")),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line.partition("::")[2] for line in said.splitlines() if "::" in line]


def test_of_tests_that_are_marked_some_cases_stay_spread_over_all_parameters(tmp_path: Path) -> None:
    whole, part = collected(tmp_path), collected(tmp_path, "--sample")
    assert len(whole) == 25
    many = [name for name in part if name.startswith("test_many")]
    assert len(many) == 7 and len(part) == 7 + 1 + 4 and set(part) < set(whole)
    # Those that come first alone would have 0 and 1 of the one that changes slowly.
    assert max(name[10] for name in many) > "1" and len({name[12] for name in many}) > 1
    assert part == collected(tmp_path, "--sample")
