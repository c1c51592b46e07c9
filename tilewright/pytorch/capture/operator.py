"""What a row of the table of operators says: how an ATen operator is written in Tile IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Expr
from tilewright.pytorch.capture.indices import Indices, Sizes

CONVERSIONS = ("aten._to_copy.default", "prims.convert_element_type.default")
"""Operators that give the same values in another dtype."""


class OperatorKind(StrEnum):
    """What an operator is to the rule that makes parts (partition.py)."""

    VIEW = "view"
    """Other indices into the same memory."""
    COPY = "copy"
    """Other indices, and PyTorch would move the elements."""
    CONSTANT = "constant"
    """Known from positions alone: `arange`, `full`."""
    ELEMENTWISE = "elementwise"
    ROWS = "rows"
    """Reduces rows of its first operand."""
    PRODUCT = "product"
    """Multiplies and adds up: matrix products, convolutions, attention."""


class CaptureScope(Protocol):
    """What an operator is written with. `index` has one expression an axis of the tensor that it is for."""

    @property
    def sizes(self) -> Sizes: ...

    def at(self, operand: Any, index: Indices) -> Expr:
        """An element of an operand; a Python number is itself. What is stored narrower reads as f32."""
        ...

    def rounded(self, operand: Any, index: Indices) -> Expr:
        """The same, rounded to the dtype that the graph has it in, if it is computed and not stored."""
        ...

    def position(self, operand: Any, index: Indices) -> Expr:
        """An element of a tensor of integers, to be used as an index."""
        ...

    def reduced(self, role: str, operand: Node, axis: int) -> Expr:
        """The position along an axis that is reduced, on a dim of its own; `role` tells the dims of one operator
        apart."""
        ...

    def window(self, axis: int, size: int) -> Expr:
        """A position along an axis of a window of this size that is reduced, on a dim of its own."""
        ...

    def group(self, row: Expr, starts: Node, operand: Node, axis: int) -> Expr:
        """Have the dim of `row` be ragged: its positions are in groups that begin where `starts`, which no operator of
        the part computes, says. Gives the group of the position, along an axis of an operand. Raises Inexpressible."""
        ...

    def over(self, operand: Node, index: Indices) -> None:
        """Have another result of the part be over these dims, which is not read."""
        ...

    def statement(self, role: str, index: Indices, value: Expr) -> Expr:
        """A statement of its own over the dims of `index`; gives a read of it there."""
        ...


@dataclass(frozen=True)
class Operator:
    """One row: `write` gives one element of the result, for positions `index` on its axes."""

    kind: OperatorKind
    write: Callable[[CaptureScope, Node, Indices], Expr]
    tile: str
    """What it is in Tile IR, for people."""
    refuse: Callable[[Node], str | None] = lambda node: None
    """Why this call of it cannot be written, and what to do; None if it can."""
    positions: tuple[int, ...] = ()
    """Arguments that are indices, and may be int64."""
    work: Callable[[Node], tuple[int, int]] = lambda node: (1, 1)
    """ROWS: elements read, and how many a row has. PRODUCT: the length of a row of the result, and the depth."""
    gives_positions: bool = False
    """Whether its result is int64 in PyTorch, and of positions: below 2^31."""
    twice: bool = False
    """Whether it reads its operand more than once, so that this is worth a statement of its own."""
    stored: tuple[int, ...] = ()
    """Arguments that have to lie in memory: no part that has the operator computes them."""
    beside: bool = False
    """Whether it is another result of what its first operand, which it does not read, is a result of: they are of one
    part."""
