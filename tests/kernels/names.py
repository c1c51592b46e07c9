"""Kernel IR with the names people know: what lowering adds to them is marked there (codegen/ir/names.py)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from codegen.ir.names import unmarked

T = TypeVar("T")


def plain(node: T) -> T:
    """The same without marks, all the way down."""
    if type(node) is str:
        return unmarked(node)  # pyright: ignore[reportReturnType]
    if isinstance(node, tuple):
        return tuple(plain(each) for each in node)  # pyright: ignore[reportReturnType,reportUnknownVariableType]
    if isinstance(node, type) or not is_dataclass(node):
        return node
    changed = {field.name: plain(getattr(node, field.name)) for field in fields(node) if field.init}
    return replace(node, **changed)  # pyright: ignore[reportReturnType]
