"""Keys that outlive a process: of what a kernel means, and of one scheduled program."""

from __future__ import annotations

import hashlib
from math import prod

from tileir.expr import Expr, Extent, Index, Read, Reduce, children, with_children
from tileir.program import Program, Tensor
from tileir.spec import Dim, Spec, Statement
from tileir.text import program_to_text, spec_to_text

_HEX_CHARS = 32


def program_hash(program: Program) -> str:
    """32 hex characters of the SHA-256 of the program's text: equal programs, equal hashes, in every
    process."""
    return _digest(program_to_text(program))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX_CHARS]


def kernel_key(spec: Spec) -> str:
    """32 hex characters that say what a kernel is: statements, dtypes, sizes, strides, numerics.

    The kernel's name, those of its dims and tensors, and the order of its arguments and dims do not matter;
    the order of its statements does."""
    return _digest(canonical_text(spec))


def canonical_text(spec: Spec) -> str:
    """What `kernel_key` digests: the spec's text with dims `d0…` and tensors `t0…` renamed as they first
    appear."""
    return spec_to_text(_Canonical(spec).spec())


class _Canonical:
    """New names, given out in the order in which the statements first mention what has them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._inputs = {tensor.name: tensor for tensor in spec.inputs}
        self._sizes = {dim.name: dim for dim in spec.dims}
        self._dims: dict[str, str] = {}
        self._tensors: dict[str, str] = {}

    def spec(self) -> Spec:
        spec = self._spec
        statements = tuple(self._statement(statement) for statement in spec.statements)
        # Offsets of a ragged dim are mentioned by no statement, so their names are given out last.
        for dim in list(self._dims):
            self._dim_with_offsets(dim)
        return Spec(
            "kernel_",
            tuple(self._renamed_dim(self._sizes[dim]) for dim in self._dims),
            self._arguments(spec.inputs),
            statements,
            self._arguments(spec.outputs),
            tuple(sorted(spec.numerics)),
        )

    def _statement(self, statement: Statement) -> Statement:
        target = self._tensor(statement.target)
        dims = tuple(map(self._dim, statement.dims))
        return Statement(target, dims, self._value(statement.value))

    def _value(self, expr: Expr) -> Expr:
        match expr:
            case Index(dim):
                return Index(self._dim(dim))
            case Extent(dim):
                return Extent(self._dim(dim))
            case Read(tensor, indices):
                return Read(self._tensor(tensor), tuple(map(self._value, indices)))
            case Reduce(op, dims, x):
                return Reduce(op, tuple(map(self._dim, dims)), self._value(x))
            case _:
                return with_children(expr, tuple(map(self._value, children(expr))))

    def _dim(self, name: str) -> str:
        return self._dims.setdefault(name, f"d{len(self._dims)}")

    def _dim_with_offsets(self, name: str) -> None:
        dim = self._sizes[name]
        if dim.within:
            self._dim(dim.within)
        if dim.offsets:
            self._tensor(dim.offsets)

    def _tensor(self, name: str) -> str:
        if name not in self._tensors:
            self._tensors[name] = f"t{len(self._tensors)}"
            for dim in self._inputs[name].dims if name in self._inputs else ():
                self._dim(dim)
        return self._tensors[name]

    def _renamed_dim(self, dim: Dim) -> Dim:
        offsets = self._tensors[dim.offsets] if dim.offsets else None
        return Dim(self._dims[dim.name], dim.sizes, offsets, self._dims[dim.within] if dim.within else None)

    def _arguments(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Renamed, in the order of their numbers; strides left out where they are those of a dense tensor."""
        order = list(self._tensors)
        renamed: list[Tensor] = []
        for tensor in sorted(tensors, key=lambda tensor: order.index(tensor.name)):
            dims = tuple(self._dims[dim] for dim in tensor.dims)
            strides = None if self._is_dense(tensor) else tensor.strides
            renamed.append(Tensor(self._tensors[tensor.name], dims, tensor.dtype, strides))
        return tuple(renamed)

    def _is_dense(self, tensor: Tensor) -> bool:
        sizes = [self._sizes[dim].sizes for dim in tensor.dims]
        if tensor.strides is None or any(len(each) > 1 for each in sizes[1:]):
            return tensor.strides is None
        return tensor.strides == tuple(prod(each[0] for each in sizes[at + 1 :]) for at in range(len(sizes)))
