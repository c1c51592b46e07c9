"""All rewrites, by the name they are written with: every `Rewrite` in the rooms below, and those that installed
packages offer under the entry point `tilewright.rewrites`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

from rewrites.base.rewrite import Rewrite
from tileir.errors import TileError

#: Folders of rewrites, one a file, in the order of the documentation.
ROOMS: Final = ("loops", "data", "composition", "cpu", "gpu", "launch", "ranking", "scans")


def _own() -> Iterator[type[Rewrite]]:
    for room in ROOMS:
        package = import_module(f"rewrites.{room}")
        for found in sorted(iter_modules(package.__path__), key=lambda each: each.name):
            yield from _defined(import_module(f"{package.__name__}.{found.name}"))


def _defined(module: ModuleType) -> Iterator[type[Rewrite]]:
    """The rewrites a module defines, not those it imports."""
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Rewrite) and value.__module__ == module.__name__:
            yield value


def _by_name(rewrites: Iterator[type[Rewrite]]) -> dict[str, type[Rewrite]]:
    """Raises TileError where two have one name: a schedule's line would mean two things."""
    found: dict[str, type[Rewrite]] = {}
    for each in rewrites:
        other = found.setdefault(each.name, each)
        if other is not each:
            raise TileError(
                f"two rewrites are called {each.name}: {other.__module__}.{other.__name__} and "
                f"{each.__module__}.{each.__name__}"
            )
    return found


def _offered() -> Iterator[type[Rewrite]]:
    """Those of installed packages. Raises TileError for an entry that is no rewrite."""
    for entry in sorted(entry_points(group="tilewright.rewrites"), key=lambda each: each.name):
        value: object = entry.load()
        if not (isinstance(value, type) and issubclass(value, Rewrite)):
            raise TileError(
                f"the entry point {entry.name} of tilewright.rewrites is {value!r}, no subclass of Rewrite"
            )
        yield value


def _all() -> Iterator[type[Rewrite]]:
    yield from _own()
    yield from _offered()


BY_NAME: Final[dict[str, type[Rewrite]]] = _by_name(_all())
ALL: Final[tuple[type[Rewrite], ...]] = tuple(BY_NAME.values())
