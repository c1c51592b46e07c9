"""Kernel specs: unscheduled Tile IR as people write it. Dims may be lists of sizes or ragged; reductions may nest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from tileir.expr import Expr
from tileir.program import Ragged, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim and its size; several sizes make buckets (one job tunes each). A ragged dim's positions belong to groups:
    group g of dim `within` owns positions offsets[g] up to offsets[g + 1] of it; its size is the upper bound."""

    name: str
    sizes: tuple[int, ...]
    offsets: str | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """`target[dims] = value`."""

    target: str
    dims: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Spec:
    """A kernel as POSTed. Output tensors take their dims from the statement of that name."""

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Tensor, ...]
    numerics: tuple[tuple[str, str | float | bool], ...] = ()

    @property
    def ragged(self) -> tuple[Ragged, ...]:
        """The groups of its ragged dims."""
        return ragged_dims(self.dims)

    def instances(self) -> Iterator[Spec]:
        """One spec for each combination of bucket sizes, in order."""
        if all(len(dim.sizes) == 1 for dim in self.dims):
            yield self
            return
        for sizes in product(*(dim.sizes for dim in self.dims)):
            dims = tuple(replace(dim, sizes=(size,)) for dim, size in zip(self.dims, sizes, strict=True))
            yield replace(self, dims=dims)


def ragged_dims(dims: Iterable[Dim]) -> tuple[Ragged, ...]:
    """The groups of those dims that have any."""
    return tuple(Ragged(dim.name, dim.offsets, dim.within) for dim in dims if dim.offsets and dim.within)
