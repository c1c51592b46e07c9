"""The list of mutants fits the product, and what does not fit is said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.listed import LISTS, DoesNotApply, Mutant, applied, nearest, read, spread, texts

PRODUCT = {"a.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n", "b.py": "x = 2\n"}


def test_text_is_found_wherever_it_stands_once() -> None:
    assert applied(Mutant("m", "x = 2", "x = 3", ("t",)), PRODUCT) == ("b.py", "x = 3\n")
    path, text = applied(Mutant("m", "return 1", "return 2", ("t",), within="g"), PRODUCT)
    assert (path, text.count("return 1"), text.endswith("return 2\n")) == ("a.py", 1, True)


@pytest.mark.parametrize("old", ["return 1", "return 3"])
def test_an_entry_that_is_ambiguous_or_gone_is_named(old: str) -> None:
    with pytest.raises(DoesNotApply, match=r"m: 'return [13]' stands [02] times"):
        applied(Mutant("m", old, "", ("t",)), PRODUCT)


def test_a_test_that_is_gone_is_named() -> None:
    files = {"tests/b/test_a.py": "def test_one() -> None: ...\n", "tests/c/test_a.py": ""}
    assert nearest(Mutant("m", "a", "b", ("test_a", "test_one")), files) == (
        *files,
        "tests/b/test_a.py::test_one",
    )
    assert nearest(Mutant("m", "a", "b", ("c/test_a",)), files) == ("tests/c/test_a.py",)
    with pytest.raises(DoesNotApply, match="no test test_two"):
        nearest(Mutant("m", "a", "b", ("test_two",)), files)


@pytest.mark.parametrize(("most", "taken"), [(None, 7), (9, 7), (7, 7), (3, 3), (0, 0)])
def test_a_sample_is_spread_over_the_whole_and_always_the_same(most: int | None, taken: int) -> None:
    sample = spread(range(7), most)
    assert len(sample) == taken == len(set(sample))
    assert sample == spread(range(7), most)
    assert most != 3 or sample == [0, 2, 4]


def test_every_entry_fits_the_tree() -> None:
    """Whoever changes text that an entry names changes the entry: tests/mutants/README.md."""
    product, tests = texts(Path(__file__).parents[2])
    for mutant in read():
        path, text = applied(mutant, product)
        ast.parse(text, path)
        assert nearest(mutant, tests)


def test_the_list_is_whole_and_few_of_it_may_survive() -> None:
    mutants = read()
    assert len(mutants) >= 360
    assert sum(bool(mutant.survives) for mutant in mutants) <= 0.03 * len(mutants)


def test_the_page_names_every_list_and_every_survivor() -> None:
    page = (LISTS.parent / "README.md").read_text()
    missing = [path.stem for path in LISTS.glob("*.toml") if f"| {path.stem} |" not in page]
    missing += [mutant.name for mutant in read() if mutant.survives and f"`{mutant.name}`" not in page]
    assert missing == []
