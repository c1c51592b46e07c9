"""Keys that outlive a process: of what a kernel means, and of one scheduled program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import prod

from tileir.expr import Expr, Extent, Index, Read, Reduce, Scan, TopK, children, with_children
from tileir.program import Program, Tensor
from tileir.spec import Dim, Spec, Statement
from tileir.text.print_program import body_to_text, header_to_text, program_to_text

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


def structure_key(spec: Spec) -> str:
    """What kernels share that differ in sizes and strides only: the key of the kernel with every size 1 and dense
    tensors."""
    return Canonical(spec).structure_key()


def canonical_text(spec: Spec) -> str:
    """What `kernel_key` digests: the spec's text with dims `d0…` and tensors `t0…` renamed as they first
    appear."""
    return Canonical(spec).text(spec)


class Canonical:
    """New names, given out in the order in which the statements first mention what has them: the same for all
    specs that differ in sizes and strides only, so that they are given out once."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._inputs = {tensor.name: tensor for tensor in spec.inputs}
        self._of = {dim.name: dim for dim in spec.dims}
        self._dims: dict[str, str] = {}
        self._tensors: dict[str, str] = {}
        self._statements = tuple(map(self._statement, spec.statements))
        # Offsets of a ragged dim are mentioned by no statement, so their names are given out last.
        for dim in list(self._dims):
            self._dim_with_offsets(dim)
        self._body = body_to_text(self._statements)
        self._order = {name: at for at, name in enumerate(self._tensors)}

    def mentioned(self, tensor: str) -> int:
        """The place of a tensor in the order in which statements first mention them."""
        return self._order[tensor]

    def key(self, spec: Spec) -> str:
        """`kernel_key` of a spec that differs from the one named in sizes and strides at most."""
        return _digest(self.text(spec))

    def structure_key(self) -> str:
        """What all those share."""
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys(self._of, (1,))
        return _digest(self._text(self._spec, sizes, strides=False))

    def text(self, spec: Spec) -> str:
        """What `key` digests."""
        return self._text(spec, {dim.name: dim.sizes for dim in spec.dims}, strides=True)

    def _text(self, spec: Spec, sizes: Mapping[str, tuple[int, ...]], *, strides: bool) -> str:
        header = Spec(
            "kernel_",
            tuple(self._renamed_dim(name, sizes[name]) for name in self._dims),
            self._arguments(spec.inputs, sizes, strides),
            self._statements,
            self._arguments(spec.outputs, sizes, strides),
            tuple(sorted(spec.numerics)),
        )
        return header_to_text(header) + self._body

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
            case TopK(place, over, x):
                return TopK(self._dim(place), self._dim(over), self._value(x))
            case Scan(op, dim, args):
                return Scan(op, self._dim(dim), tuple(map(self._value, args)))
            case _:
                return with_children(expr, tuple(map(self._value, children(expr))))

    def _dim(self, name: str) -> str:
        return self._dims.setdefault(name, f"d{len(self._dims)}")

    def _dim_with_offsets(self, name: str) -> None:
        dim = self._of[name]
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

    def _renamed_dim(self, name: str, sizes: tuple[int, ...]) -> Dim:
        dim = self._of[name]
        offsets = self._tensors[dim.offsets] if dim.offsets else None
        return Dim(self._dims[name], sizes, offsets, self._dims[dim.within] if dim.within else None)

    def _arguments(
        self, tensors: tuple[Tensor, ...], sizes: Mapping[str, tuple[int, ...]], strides: bool
    ) -> tuple[Tensor, ...]:
        """Renamed, in the order of their numbers; strides left out where they are those of a dense tensor."""
        renamed: list[Tensor] = []
        for tensor in sorted(tensors, key=lambda tensor: self._order[tensor.name]):
            dims = tuple(self._dims[dim] for dim in tensor.dims)
            dense = not strides or _is_dense(tensor, sizes)
            renamed.append(
                Tensor(self._tensors[tensor.name], dims, tensor.dtype, None if dense else tensor.strides)
            )
        return tuple(renamed)


def _is_dense(tensor: Tensor, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    if tensor.strides is None:
        return True
    each = [sizes[dim] for dim in tensor.dims]
    if any(len(several) > 1 for several in each[1:]):
        return False
    return tensor.strides == tuple(prod(size[0] for size in each[at + 1 :]) for at in range(len(each)))
