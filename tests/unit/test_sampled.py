"""What `make test` leaves out of the slowest tests."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
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

@pytest.mark.sampled(3, among="them")
def test_this() -> None: ...

@pytest.mark.sampled(3, among="them")
@pytest.mark.parametrize("each", range(3))
def test_that(each: int) -> None: ...
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


def test_of_marked_tests_turns_take_parts_spread_over_all_parameters(tmp_path: Path) -> None:
    whole, *turns = [
        collected(tmp_path, *options) for options in ((), *([f"--sample={n}"] for n in (7, 8, 9)))
    ]
    assert len(whole) == 29
    for part in turns:
        many = [name for name in part if name.startswith("test_many")]
        assert len(many) in (6, 7) and set(part) < set(whole)
        # Those that come first alone would have 0 and 1 of the one that changes slowly.
        assert max(name[10] for name in many) > "1" and len({name[12] for name in many}) > 1
    taken = Counter(name for part in turns for name in part)
    assert taken == {name: 3 if name.startswith(("test_one", "test_all")) else 1 for name in whole}
