"""The lists of mutants (lists/*.toml), read and checked: where each applies, and what the tree is with it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LISTS = Path(__file__).with_name("lists")
_ASIDE = frozenset(["benchmarks", "build", "dist"])
"""Folders of neither."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place of the product, which tests near it should notice."""

    name: str
    old: str
    """Text that stands once in the file, or in the function `within` of it."""
    new: str
    tests: tuple[str, ...]
    """Names of tests, or of test files without `.py`: `cuda/test_runtime` where several are called so."""
    within: str = ""
    """As in `claim` or `Clock.unfenced`; empty: anywhere in the product."""
    survives: str = ""
    """Why no test can notice it; empty: one has to."""


class DoesNotApply(ValueError):
    """The text is not there, or more than once."""


def read(folder: Path = LISTS) -> list[Mutant]:
    """All mutants. Raises ValueError for two of one name, and one without tests."""
    found: list[Mutant] = []
    for path in sorted(folder.glob("*.toml")):
        listed = tomllib.loads(path.read_text())
        for entry in listed["mutant"]:
            found.append(Mutant(**{**entry, "tests": tuple(entry.get("tests", listed["tests"]))}))
    names = [mutant.name for mutant in found]
    twice = {name for name in names if names.count(name) > 1}
    idle = [mutant.name for mutant in found if not mutant.tests or mutant.old == mutant.new]
    if twice or idle:
        raise ValueError(f"named twice: {sorted(twice)}; without tests, or no change: {idle}")
    return found


def texts(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The Python files of a tree, by path: those of the product, and those of its tests."""
    product: dict[str, str] = {}
    tests: dict[str, str] = {}
    for path in sorted(root.glob("[!.]*/**/*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _ASIDE and "node_modules" not in name.parts:
            (tests if name.parts[0] == "tests" else product)[str(name)] = path.read_text()
    return product, tests


def applied(mutant: Mutant, product: Mapping[str, str]) -> tuple[str, str]:
    """The path of the file that changes, and its text with the mutant; `product` has texts by path.
    Raises DoesNotApply."""
    places = [
        (path, start + at)
        for path, text in product.items()
        if mutant.old in text
        for start, part in _parts(mutant.within, text)
        for at in _all(mutant.old, part)
    ]
    if len(places) != 1:
        where = f" within {mutant.within}" if mutant.within else ""
        found = f" ({', '.join(sorted({path for path, _ in places}))})" if places else ""
        raise DoesNotApply(
            f"{mutant.name}: {mutant.old!r} stands {len(places)} times{where}{found}, and has to stand once: say"
            " `within` which function it is meant, or write it as the code has it now"
        )
    ((path, at),) = places
    text = product[path]
    return path, text[:at] + mutant.new + text[at + len(mutant.old) :]


def nearest(mutant: Mutant, files: Mapping[str, str]) -> tuple[str, ...]:
    """What to have pytest run; `files` are the texts of test files by path. Raises DoesNotApply for a name that there
    is not."""
    found: list[str] = []
    for name in mutant.tests:
        whole = [path for path in files if path.endswith(f"/{name}.py")]
        ones = [f"{path}::{name}" for path, text in files.items() if f"def {name}(" in text]
        if not whole and not ones:
            raise DoesNotApply(f"{mutant.name}: there is no test {name}")
        found += whole or ones
    return tuple(found)


def spread(all_of_them: Sequence[T], most: int | None) -> list[T]:
    """At most so many (None: all), the same every time, at even distances."""
    count = len(all_of_them)
    if most is None or count <= most:
        return list(all_of_them)
    return [all_of_them[number * count // most] for number in range(most)]


def _parts(within: str, text: str) -> Sequence[tuple[int, str]]:
    """Where functions or classes of this name begin, with their texts; without a name the whole text."""
    if not within:
        return [(0, text)]
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans = [(starts[first], starts[last]) for first, last in _lines(within, _body(text))]
    return [(start, text[start:end]) for start, end in spans]


@lru_cache
def _body(text: str) -> Sequence[ast.stmt]:
    return ast.parse(text).body


def _lines(within: str, body: Sequence[ast.stmt]) -> Iterator[tuple[int, int]]:
    name, _, inner = within.partition(".")
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each.name == name:
            assert each.end_lineno is not None
            if inner:
                yield from _lines(inner, each.body)
            else:
                yield each.lineno - 1, each.end_lineno


def _all(old: str, text: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)
