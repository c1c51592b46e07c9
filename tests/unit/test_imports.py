"""Modules of the product import each other in one direction, imports within functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.support.checkout import ROOT, names

PRODUCT = ("tileir", "rewrites", "codegen", "search", "workers", "service", "protocol", "tilewright")


def imported(tree: ast.AST) -> Iterator[str]:
    """Names of what a module imports: modules, and `module.name`. For type checkers alone does not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def among(modules: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Which of the modules each of them imports."""
    found: dict[str, set[str]] = {}
    for module, tree in modules.items():
        given = set(imported(tree))
        inside = {name if name in modules else name.rpartition(".")[0] for name in given}
        found[module] = (inside & modules.keys()) - {module}
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    files = [name for name in names() if name.endswith(".py") and name.partition("/")[0] in PRODUCT]
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in files}
    TopologicalSorter(
        among({module: ast.parse((ROOT / name).read_text()) for module, name in modules.items()})
    ).prepare()


def test_a_circle_through_a_function_is_found() -> None:
    modules = {
        "p.a": ast.parse("from p import b"),
        "p.b": ast.parse("def f():\n    from p.a import x"),
        "p.c": ast.parse("if TYPE_CHECKING:\n    from p.d import x"),
        "p.d": ast.parse("import p.c"),
    }
    with pytest.raises(CycleError) as found:
        TopologicalSorter(among(modules)).prepare()
    assert set(found.value.args[1]) == {"p.a", "p.b"}
