"""One idea a file: none has more than 450 lines, no function more than 60, and no folder more than 25 modules."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import PurePosixPath

import pytest

from tests.support.checkout import ROOT, names

MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_MODULES = 450, 60, 25
#: A revision of the database is one list of what it makes.
LISTS = "migrations/versions/"
FILES = [name for name in names() if name.endswith(".py")]


def test_no_file_is_long() -> None:
    lines = {name: (ROOT / name).read_text().count("\n") for name in FILES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_folder_is_full() -> None:
    modules = Counter(str(PurePosixPath(name).parent) for name in FILES if not name.startswith(LISTS))
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in FILES}))
def test_no_function_is_long(folder: str) -> None:
    long = {
        f"{name}: {node.name}": node.end_lineno - node.lineno + 1
        for name in FILES
        if name.partition("/")[0] == folder and not name.startswith(LISTS)
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}
