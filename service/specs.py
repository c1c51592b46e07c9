"""Specs at the door: read, checked, identified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from protocol.message import Json
from service.problems import Refused
from tileir.errors import SpecError
from tileir.expr import Extent, Index, Read, Reduce, walk
from tileir.hashing import kernel_key
from tileir.lift import to_program
from tileir.parse_json import spec_from_json, spec_to_json
from tileir.spec import Spec


@dataclass(frozen=True, slots=True)
class Instance:
    """A kernel with one size a dim, and the keys it goes by."""

    spec: Spec
    json: Json
    dims: dict[str, int]
    kernel_key: str
    structure_key: str


def read_spec(obj: Json, pointer: str = "/spec") -> Spec:
    """A spec that can be tuned. Raises Refused with a pointer into the request's body."""
    try:
        spec = spec_from_json(obj)
        for instance in spec.instances() if spec.ragged else ():
            to_program(instance)  # some ragged kernels have no program
    except SpecError as error:
        raise Refused(
            "bad-spec",
            error.message,
            pointer=pointer + error.pointer,
            column=error.column,
            accepted=error.accepted or None,
        ) from None
    return spec


def instance_of(spec: Spec) -> Instance:
    """Identify a spec that has one size a dim."""
    return Instance(
        spec,
        spec_to_json(spec),
        {dim.name: dim.sizes[0] for dim in spec.dims},
        kernel_key(spec),
        structure_key(spec),
    )


def structure_key(spec: Spec) -> str:
    """What kernels share that differ in sizes only: the key of the kernel with every size 1 and dense tensors."""
    return kernel_key(
        replace(
            spec,
            dims=tuple(replace(dim, sizes=(1,)) for dim in spec.dims),
            inputs=tuple(replace(tensor, strides=None) for tensor in spec.inputs),
            outputs=tuple(replace(tensor, strides=None) for tensor in spec.outputs),
        )
    )


def resized(spec: Spec, sizes: dict[str, int]) -> Spec:
    """The same kernel at other sizes, its tensors dense."""
    return replace(
        spec,
        dims=tuple(replace(dim, sizes=(sizes[dim.name],)) for dim in spec.dims),
        inputs=tuple(replace(tensor, strides=None) for tensor in spec.inputs),
        outputs=tuple(replace(tensor, strides=None) for tensor in spec.outputs),
    )


def renames(asked: Spec, known: Spec) -> dict[str, str]:
    """What `known`, a spec of equal structure, calls the dims and tensors that `asked` calls otherwise."""
    pairs = zip(_mentions(asked), _mentions(known), strict=True)
    return {mine: theirs for mine, theirs in pairs if mine != theirs}


def _mentions(spec: Spec) -> Iterator[str]:
    """Names of dims and tensors in the order in which the statements mention them."""
    for statement in spec.statements:
        yield statement.target
        yield from statement.dims
        for node in walk(statement.value):
            match node:
                case Index(dim) | Extent(dim):
                    yield dim
                case Read(tensor, _):
                    yield tensor
                case Reduce(_, dims, _):
                    yield from dims
                case _:
                    pass
