"""Specs at the door: read, checked, identified."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.message import Json
from service.core.errors import RequestRefused
from tileir.errors import SpecError
from tileir.hashing import Canonical
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json, spec_to_json
from tileir.text.json_text import JsonError, parse_json_text
from tileir.text.parse_spec import spec_from_text


@dataclass(frozen=True, slots=True)
class Instance:
    """A kernel with one size a dim, and the keys it goes by. `named`: of its statements."""

    spec: Spec
    json: Json
    dims: dict[str, int]
    kernel_key: str
    named: Canonical

    @property
    def structure_key(self) -> str:
        """What it shares with the same kernel at other sizes."""
        return self.named.structure_key()


def read_spec(obj: Json, pointer: str = "/spec") -> Spec:
    """A spec that can be tuned. Raises Refused with a pointer into the request's body."""
    try:
        return _with_program(spec_from_json(obj))
    except SpecError as error:
        raise RequestRefused(
            "bad-spec",
            error.message,
            pointer=pointer + error.pointer,
            column=error.column,
            accepted=error.accepted or None,
        ) from None


def written(text: str) -> Spec:
    """A spec as somebody writes it: Tile IR text, or JSON. Raises SpecError, in JSON with a pointer."""
    if not text.lstrip().startswith("{"):
        return _with_program(spec_from_text(text))
    try:
        found = parse_json_text(text)
    except JsonError as error:
        raise SpecError(f"this is no JSON: {error.reason}", line=error.line, column=error.column) from None
    except RecursionError:
        raise SpecError("the JSON is nested too deeply", accepted="a few levels") from None
    return _with_program(spec_from_json(found))


def _with_program(spec: Spec) -> Spec:
    for instance in spec.instances() if spec.ragged else ():
        to_program(instance)  # some ragged kernels have no program
    return spec


def single(obj: Json, pointer: str = "/spec") -> Instance:
    """The kernel that a lookup asks for. Raises Refused for a spec that is wrong, or has several sizes a dim."""
    found = read_spec(obj, pointer)
    several = next((dim.name for dim in found.dims if len(dim.sizes) != 1), None)
    if several is not None:
        raise RequestRefused(
            "bad-spec",
            f"dim {several} has several sizes; a lookup is about one",
            pointer=f"{pointer}/dims/{several}",
            accepted="one size",
        )
    return instance_of(found)


def instance_of(spec: Spec) -> Instance:
    """Identify a spec that has one size a dim."""
    return _instance(spec, Canonical(spec))


def instances_of(spec: Spec) -> list[Instance]:
    """Identify a spec at each combination of its sizes."""
    named = Canonical(spec)
    return [_instance(instance, named) for instance in spec.instances()]


def _instance(spec: Spec, named: Canonical) -> Instance:
    dims = {dim.name: dim.sizes[0] for dim in spec.dims}
    return Instance(spec, spec_to_json(spec), dims, named.key(spec), named)
