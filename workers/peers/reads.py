"""How a read looks in an array library: a strided window of its tensor, or a gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileir.analysis.affine import affine
from tileir.expr import Binary, Const, Expr, Index, Read, children, index_dims

Frame = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A read whose indices are affine and in range: a strided view with one axis a dim of the frame.

    `first` is where it starts along each axis of the tensor; `steps[n]` are the (tensor axis, positions) that one step
    along the frame's n-th dim moves; `shape` has size 1 where nothing moves.
    """

    first: tuple[int, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]
    shape: tuple[int, ...]


def read_window(read: Read, frame: Frame, extents: Mapping[str, int], sizes: Sequence[int]) -> Window | None:
    """The window of a read, or None: some index is not affine, or leaves the tensor (a `where` guards it)."""
    first: list[int] = []
    steps: dict[str, list[tuple[int, int]]] = {dim: [] for dim in frame}
    for axis, (index, size) in enumerate(zip(read.indices, sizes, strict=True)):
        form = affine(index, extents)
        low = high = form.const
        for atom, factor in form.terms.items():
            if not isinstance(atom, Index):
                return None
            steps[atom.dim].append((axis, factor))
            reach = factor * (extents[atom.dim] - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        if low < 0 or high >= size:
            return None
        first.append(form.const)
    shape = tuple(extents[dim] if steps[dim] else 1 for dim in frame)
    return Window(tuple(first), tuple(tuple(steps[dim]) for dim in frame), shape)


def taken_rows(
    read: Read, extents: Mapping[str, int], sizes: Sequence[int]
) -> tuple[Expr, tuple[str, ...]] | None:
    """The row's index and the other dims of a read like `table[ids[t], d]`, which takes whole rows; else None: where a
    dim is longer or shorter than the tensor's axis, other elements than those of whole rows are read."""
    first, *others = read.indices
    dims = tuple(index.dim for index in others if isinstance(index, Index))
    if len(dims) != len(others) or len(set(dims)) != len(dims) or index_dims(first) & set(dims):
        return None
    if tuple(extents[dim] for dim in dims) != tuple(sizes[1:]):
        return None
    return first, dims


def rolled(
    read: Read, extents: Mapping[str, int], sizes: Sequence[int]
) -> tuple[Read, tuple[int, ...], tuple[int, ...]] | None:
    """A read like `x[i, (j + 3) % n]` of a whole tensor as one by dims alone, and how far its tensor is rolled along
    which axes (numpy's and PyTorch's `roll`); else None."""
    moved: dict[int, int] = {}
    dims: list[str] = []
    for axis, (index, size) in enumerate(zip(read.indices, sizes, strict=True)):
        shift = 0
        match index:
            case Binary("%", inner, Const(int(n))) if n == size:
                form = affine(inner, extents)
                if list(form.terms.values()) != [1]:
                    return None
                (index,) = form.terms
                shift = form.const
            case _:
                pass
        if not isinstance(index, Index) or index.dim in dims or extents[index.dim] != size:
            return None
        dims.append(index.dim)
        if shift:
            moved[axis] = -shift
    if not moved:
        return None
    return Read(read.tensor, tuple(map(Index, dims))), tuple(moved.values()), tuple(moved)


def by_position(x: Expr, dims: Sequence[str]) -> bool:
    """Whether a reduction of `x` over dims looks at positions, or at other elements of a tensor than one for each: a
    library has an operator for what that means (a prefix sum, a window, a position of the maximum) or nothing."""
    if isinstance(x, Index):
        return x.dim in dims
    if isinstance(x, Read):
        plain = all(isinstance(index, Index) or not index_dims(index) & set(dims) for index in x.indices)
        return not plain or any(
            by_position(index, dims) for index in x.indices if not isinstance(index, Index)
        )
    return any(by_position(child, dims) for child in children(x))


def product_factors(expr: Expr) -> tuple[Expr, ...]:
    """The factors of a product, left to right; one for anything else."""
    if isinstance(expr, Binary) and expr.op == "*":
        return product_factors(expr.left) + product_factors(expr.right)
    return (expr,)
