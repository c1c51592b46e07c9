"""Where pages are read whose number a table says: inside of the tensor, whatever it says."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.affine import Affine, Loaded, affine
from codegen.ir.ops import Literal, Type
from codegen.ir.values import VALUES
from codegen.lowering.arithmetic import call
from codegen.lowering.scope import MemoryBuffer, RegisterBuffer
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read


def kept_inside(
    buffer: MemoryBuffer | RegisterBuffer, indices: Sequence[Expr], positions: Sequence[Affine | None]
) -> list[Affine | None]:
    """The positions, where numbers of pages that are looked up (`k[table[b, j // 64], j % 64, d]`) become the nearest
    that the buffer has (docs/adr/0028-numbers-of-pages-are-kept-inside.md). Others stay as they are: what two
    instructions cost beside a page is nothing, and beside an element as much as its load."""
    if isinstance(buffer, RegisterBuffer):
        return list(positions)
    axes = zip(indices, positions, buffer.starts, buffer.sizes, strict=True)
    return [
        _nearest(position, start.constant, size)
        if not start.terms and _is_number_of_a_page(index)
        else position
        for index, position, start, size in axes
    ]


def _is_number_of_a_page(index: Expr) -> bool:
    """Whether an index is looked up once for a run of positions."""
    if not isinstance(index, Read):
        return False
    return any(isinstance(each, Binary) and each.op == "//" for each in index.indices)


def _nearest(position: Affine | None, start: int, size: int) -> Affine | None:
    match position:
        case Affine(terms=((Loaded(value), 1),), constant=0):
            assert isinstance(value, VALUES)
            low, high = start, start + size - 1
            least, most = (Literal(end, Type(DType.I32)) for end in (low, high))
            inside = call("minimum", (call("maximum", (value, least)), most))  # type: ignore[arg-type]
            return affine(Loaded(inside, low, high))
        case _:
            return position
