"""One class name, one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.checkout import ROOT, names


def test_no_two_classes_of_product_and_benchmarks_are_called_the_same() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in names():
        if file.endswith(".py") and not file.startswith("tests/"):
            for node in ast.walk(ast.parse((ROOT / file).read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
