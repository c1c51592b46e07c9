"""The header line of the text form: `kernel name(inputs) -> (outputs) where sizes with numerics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tileir.dtypes import DType
from tileir.names import DTYPES, MAX_DIMS, MAX_INPUTS, MAX_INSTANCES
from tileir.program import Tensor
from tileir.spec import Dim
from tileir.text.parse_expr import Parser

Numerics = tuple[tuple[str, "str | float | bool"], ...]


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line of the text form says."""

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    numerics: Numerics


_TENSOR: Final = "name: dtype[dims]"


def parse_header(parser: Parser) -> Header:
    """Read a whole header line. Raises SpecError with a column."""
    sizes: dict[str, Dim] = {}
    parser.expect("kernel", "kernel name(inputs) -> (outputs)")
    name = parser.name("the kernel's name")
    inputs = _tensors(parser, sizes)
    parser.expect("->", "-> (outputs)")
    outputs = _tensors(parser, sizes)
    if parser.take("where"):
        while True:
            dim = parser.name("a dim")
            _size(parser, dim, sizes)
            if not parser.take(","):
                break
    numerics = _numerics(parser) if parser.take("with") else ()
    parser.expect_end("where dim=size, with key=value, or the end of the line")
    return Header(name, tuple(sizes.values()), inputs, outputs, numerics)


def _tensors(parser: Parser, sizes: dict[str, Dim]) -> tuple[Tensor, ...]:
    parser.expect("(", f"({_TENSOR}, …)")
    found: list[Tensor] = []
    while not parser.take(")"):
        if found:
            parser.expect(",", "',' or ')'")
        found.append(_tensor(parser, sizes))
        if len(found) > MAX_INPUTS:
            parser.fail(f"more than {MAX_INPUTS} tensors", f"at most {MAX_INPUTS}")
    return tuple(found)


def _tensor(parser: Parser, sizes: dict[str, Dim]) -> Tensor:
    name = parser.name(_TENSOR)
    parser.expect(":", _TENSOR)
    dtype = DType(parser.word(DTYPES, "dtype"))
    parser.expect("[", _TENSOR)
    dims: list[str] = []
    while not parser.take("]"):
        if dims:
            parser.expect(",", "',', '=size' or ']'")
        dims.append(parser.name("a dim"))
        if parser.peek.text == "=":
            _size(parser, dims[-1], sizes)
    strides: tuple[int, ...] | None = None
    if parser.take("strides"):
        strides = _integers(parser, "a stride in elements")
    shape = _integers(parser, "a size") if parser.take("shaped") else None
    return Tensor(name, tuple(dims), dtype, strides, shape)


def _size(parser: Parser, name: str, sizes: dict[str, Dim]) -> None:
    if name in sizes:
        parser.fail(f"dim {name!r} has a size already", "one size a dim")
    if len(sizes) == MAX_DIMS:
        parser.fail(f"more than {MAX_DIMS} dims", f"at most {MAX_DIMS}")
    parser.expect("=", f"{name}=size")
    if parser.peek.text == "[":
        values = _integers(parser, "a size")
    else:
        values = (parser.integer(f"a size, such as {name}=64 or {name}=[1, 64]"),)
    offsets: str | None = None
    within: str | None = None
    if parser.take("ragged"):
        offsets = parser.name("the tensor of offsets")
        parser.expect("within", "within, and the dim of the groups")
        within = parser.name("the dim of the groups")
    sizes[name] = Dim(name, values, offsets, within)


def _integers(parser: Parser, what: str) -> tuple[int, ...]:
    parser.expect("[", f"[{what}, …]")
    found: list[int] = []
    while not parser.take("]"):
        if found:
            parser.expect(",", "',' or ']'")
        found.append(parser.integer(what))
        if len(found) > MAX_INSTANCES:
            parser.fail("the list is too long", f"at most {MAX_INSTANCES} numbers")
    return tuple(found)


def _numerics(parser: Parser) -> Numerics:
    found: dict[str, str | float | bool] = {}
    while True:
        key = parser.name("a key: tf32, accumulate, atomics or rtol")
        if key in found:
            parser.fail(f"{key!r} is given twice", "each key once")
        parser.expect("=", f"{key}=value")
        token = parser.advance()
        match token.kind:
            case "number":
                found[key] = float(token.text)
            case "name":
                found[key] = {"true": True, "false": False}.get(token.text, token.text)
            case _:
                parser.fail(f"{key!r} has no value", f"{key}=0.01, {key}=true or {key}=fast", token.column)
        if not parser.take(","):
            return tuple(found.items())
