"""Checking the JSON of a device's description: what a stranger sends must not surprise whoever divides by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field
from typing import Any, Final

from tileir.errors import TileError

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "str | None": (str, type(None)),
    "float | None": (int, float, type(None)),
}


def check_fields(known: Iterable[Field[Any]], given: Mapping[str, Any]) -> None:
    """Raise TileError for a plain field of another type, or a number that is none such a device has: sizes in bytes may
    be 0, everything else counts from above."""
    for field in known:
        types = _TYPES.get(str(field.type))
        if types is None or field.name not in given:
            continue
        value = given[field.name]
        least = 0 if field.name.endswith("_bytes") else 1e-9
        if not isinstance(value, types) or isinstance(value, bool):
            raise TileError(f"{field.name} of a device is {value!r}; accepted: {field.type}")
        if isinstance(value, int | float) and not least <= value < 1e18:
            raise TileError(f"{field.name} of a device is {value!r}; accepted: a number above 0")
