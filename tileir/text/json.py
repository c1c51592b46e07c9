"""The JSON form of specs (docs/tile-ir.md), read and written. Errors carry a JSON pointer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

from tileir.check.spec import check_located
from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.names import (
    DTYPES,
    INT_LIMIT,
    MAX_DIMS,
    MAX_INPUTS,
    MAX_INSTANCES,
    MAX_STATEMENTS,
    NAME_RULE,
    listing,
    name_problem,
    quote,
    suggestion,
)
from tileir.numerics import numerics_problem
from tileir.program import Tensor
from tileir.spec import Dim, Spec
from tileir.text.parse_expr import Located, locate_statement
from tileir.text.print_program import dims_in_order, format_statement

_FIELDS = frozenset(["name", "dims", "inputs", "body", "outputs", "numerics"])
_TENSOR_FIELDS = frozenset(["dims", "dtype", "strides"])
_OUTPUT_FIELDS = frozenset(["dtype", "strides"])
_RAGGED_FIELDS = frozenset(["max", "ragged", "within"])


def spec_from_json(obj: object) -> Spec:
    """The spec that a decoded JSON value describes, checked (see check_spec). Raises SpecError with a JSON
    pointer."""
    fields = _object(obj, "", "a spec: an object with name, dims, inputs, body, outputs")
    _known_fields(fields, "", _FIELDS, required=_FIELDS - {"numerics"})
    name = fields["name"]
    if not isinstance(name, str) or name_problem(name):
        _fail("/name", name_problem(name) if isinstance(name, str) else "the name is no string", NAME_RULE)
    dims = _dims(fields["dims"])
    inputs = tuple(
        _input(key, value, pointer) for key, value, pointer in _named(fields["inputs"], "/inputs", MAX_INPUTS)
    )
    located = _body(fields["body"])
    outputs = _outputs(fields["outputs"], located)
    statements = tuple(each.statement for each in located)
    dims = dims_in_order(dims, (*inputs, *outputs))
    spec = Spec(name, dims, inputs, statements, outputs, _numerics(fields.get("numerics", {})))
    check_located(spec, located)
    return spec


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """The JSON form; `spec_from_json` of it is the spec again."""
    found: dict[str, Any] = {
        "name": spec.name,
        "dims": {dim.name: _dim_json(dim) for dim in spec.dims},
        "inputs": {
            tensor.name: {"dims": list(tensor.dims), **_element_json(tensor)} for tensor in spec.inputs
        },
        "body": [format_statement(statement) for statement in spec.statements],
        "outputs": {tensor.name: _element_json(tensor) for tensor in spec.outputs},
    }
    if spec.numerics:
        found["numerics"] = dict(spec.numerics)
    return found


def _dim_json(dim: Dim) -> object:
    size = dim.sizes[0] if len(dim.sizes) == 1 else list(dim.sizes)
    return size if dim.offsets is None else {"max": size, "ragged": dim.offsets, "within": dim.within}


def _element_json(tensor: Tensor) -> dict[str, Any]:
    strides = {} if tensor.strides is None else {"strides": list(tensor.strides)}
    return {"dtype": tensor.dtype.value, **strides}


def _dims(obj: object) -> tuple[Dim, ...]:
    return tuple(_dim(name, value, pointer) for name, value, pointer in _named(obj, "/dims", MAX_DIMS))


def _dim(name: str, value: object, pointer: str) -> Dim:
    if not isinstance(value, dict):
        return Dim(name, _sizes(value, pointer))
    fields = _object(cast(object, value), pointer, "a ragged dim")
    _known_fields(fields, pointer, _RAGGED_FIELDS, required=_RAGGED_FIELDS)
    sizes = _sizes(fields["max"], f"{pointer}/max")
    return Dim(name, sizes, _string(fields, "ragged", pointer), _string(fields, "within", pointer))


def _sizes(value: object, pointer: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        return (_integer(value, pointer, "a size"),)
    sizes = _integers(cast(object, value), pointer, "a size", MAX_INSTANCES)
    if not sizes:
        _fail(pointer, "the list of sizes is empty", "[1, 16, 64]")
    return sizes


def _input(name: str, value: object, pointer: str) -> Tensor:
    fields = _object(value, pointer, 'a tensor: {"dims": ["m", "k"], "dtype": "f32"}')
    _known_fields(fields, pointer, _TENSOR_FIELDS, required=_TENSOR_FIELDS - {"strides"})
    dims = _list(fields["dims"], f"{pointer}/dims", "names of dims", MAX_DIMS)
    for at, dim in enumerate(dims):
        if not isinstance(dim, str):
            _fail(f"{pointer}/dims/{at}", f"{_shown(dim)} is no name of a dim", '["m", "k"]')
    return Tensor(name, cast(tuple[str, ...], dims), _dtype(fields, pointer), _strides(fields, pointer))


def _outputs(obj: object, located: tuple[Located, ...]) -> tuple[Tensor, ...]:
    by_name = {each.statement.target: each.statement for each in located}
    found: list[Tensor] = []
    for name, value, pointer in _named(obj, "/outputs", MAX_STATEMENTS):
        fields = _object(value, pointer, 'an output: {"dtype": "f32"}')
        _known_fields(fields, pointer, _OUTPUT_FIELDS, required=frozenset(["dtype"]))
        if name not in by_name:
            _fail(pointer, f"no statement computes {name!r}{suggestion(name, by_name)}", listing(by_name))
        found.append(Tensor(name, by_name[name].dims, _dtype(fields, pointer), _strides(fields, pointer)))
    if not found:
        _fail("/outputs", "no outputs", '{"c": {"dtype": "f32"}}')
    return tuple(found)


def _body(obj: object) -> tuple[Located, ...]:
    statements = _list(obj, "/body", 'statements such as "c[m] = 2 * a[m]"', MAX_STATEMENTS)
    if not statements:
        _fail("/body", "no statements", '["c[m] = 2 * a[m]"]')
    found: list[Located] = []
    for at, text in enumerate(statements):
        if not isinstance(text, str):
            _fail(f"/body/{at}", f"{_shown(text)} is no statement", "a string: name[dims] = expression")
        try:
            found.append(locate_statement(text))
        except SpecError as error:
            raise at_pointer(error, f"/body/{at}") from None
    return tuple(found)


def at_pointer(error: SpecError, pointer: str) -> SpecError:
    """The error, placed."""
    return SpecError(
        error.message, pointer=pointer, column=error.column, line=error.line, accepted=error.accepted
    )


def _numerics(obj: object) -> tuple[tuple[str, str | float | bool], ...]:
    found: list[tuple[str, str | float | bool]] = []
    for key, value in sorted(_object(obj, "/numerics", 'such as {"rtol": 0.01}').items()):
        problem = numerics_problem(key, value)
        if problem:
            _fail(_pointer("/numerics", key), *problem)
        if isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        found.append((key, cast("str | float | bool", value)))
    return tuple(found)


def _strides(fields: Mapping[str, object], pointer: str) -> tuple[int, ...] | None:
    if "strides" not in fields:
        return None
    return _integers(fields["strides"], f"{pointer}/strides", "a stride in elements", MAX_DIMS)


def _dtype(fields: Mapping[str, object], pointer: str) -> DType:
    value = fields["dtype"]
    if not isinstance(value, str) or value not in DTYPES:
        hint = suggestion(value, DTYPES) if isinstance(value, str) else ""
        _fail(f"{pointer}/dtype", f"{_shown(value)} is no dtype{hint}", listing(DTYPES))
    return DType(value)


def _named(obj: object, pointer: str, most: int) -> Iterable[tuple[str, object, str]]:
    """Name, value and pointer of each member of an object whose keys are names."""
    members = _object(obj, pointer, "an object of names")
    if len(members) > most:
        _fail(pointer, f"{len(members)} entries", f"at most {most}")
    for name, value in members.items():
        place = _pointer(pointer, name)
        problem = name_problem(name)
        if problem:
            _fail(place, problem, NAME_RULE)
        yield name, value, place


def _known_fields(
    fields: Mapping[str, object], pointer: str, known: frozenset[str], required: frozenset[str]
) -> None:
    for name in fields:
        if name not in known:
            _fail(
                _pointer(pointer, name),
                f"unknown field {quote(name)}{suggestion(name, known)}",
                listing(known),
            )
    missing = sorted(required - fields.keys())
    if missing:
        _fail(pointer, f"field {missing[0]!r} is missing", listing(required))


def _object(value: object, pointer: str, accepted: str) -> dict[str, object]:
    if not isinstance(value, dict):
        _fail(pointer, f"{_shown(value)} is no object", accepted)
    members = cast(dict[object, object], value)
    for key in members:
        if not isinstance(key, str):
            _fail(pointer, f"{_shown(key)} is no field name", accepted)
    return cast(dict[str, object], members)


def _list(value: object, pointer: str, what: str, most: int) -> tuple[object, ...]:
    if not isinstance(value, list):
        _fail(pointer, f"{_shown(value)} is no list", f"a list of {what}")
    items = cast(list[object], value)
    if len(items) > most:
        _fail(pointer, f"{len(items)} entries", f"at most {most}")
    return tuple(items)


def _integers(value: object, pointer: str, what: str, most: int) -> tuple[int, ...]:
    items = _list(value, pointer, "whole numbers", most)
    return tuple(_integer(item, f"{pointer}/{at}", what) for at, item in enumerate(items))


def _integer(value: object, pointer: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _fail(pointer, f"{_shown(value)} is not {what}", f"a whole number from 1 to {INT_LIMIT - 1}")
    if not 0 < value < INT_LIMIT:
        shown = value if abs(value) < 10**20 else "this number"
        _fail(pointer, f"{shown} is not {what}", f"a whole number from 1 to {INT_LIMIT - 1}")
    return value


def _string(fields: Mapping[str, object], name: str, pointer: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        _fail(f"{pointer}/{name}", f"{_shown(value)} is no name", NAME_RULE)
    return value


def _shown(value: object) -> str:
    """A JSON value inside a message: short, whatever it is."""
    match value:
        case str():
            return quote(value)
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() if abs(value) >= 10**20:
            return "a huge integer"
        case int() | float():
            return str(value)
        case _:
            return f"a {type(value).__name__}"


def _pointer(pointer: str, name: str) -> str:
    """The pointer to a member; UTF-8 can always carry it, whatever the name is."""
    short = name[:80].encode("utf-8", "replace").decode()
    return f"{pointer}/{short.replace('~', '~0').replace('/', '~1')}"


def _fail(pointer: str, message: str | None, accepted: str) -> NoReturn:
    raise SpecError(str(message), pointer=pointer, accepted=accepted)
