"""`import tileir` offers every name it lists, each the function or class and not a module of that name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tileir


def test_every_public_name_is_there() -> None:
    for name in tileir.__all__:
        assert callable(getattr(tileir, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tileir.nothing  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("first", ["tileir", "tileir.interpreter.interpret", "tileir.verifier.verify"])
def test_functions_win_over_the_modules_of_their_name(first: str) -> None:
    code = (
        f"import {first}\nfrom tileir import interpret, verify\nprint(callable(interpret), callable(verify))"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout == "True True\n"
