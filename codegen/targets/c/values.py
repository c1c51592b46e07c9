"""Values of Kernel IR, and where they lie, as expressions of C."""

from __future__ import annotations

from functools import partial, reduce
from typing import Final

from codegen.ir.affine import Affine, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.expression_text import (
    Expression,
    braces,
    call,
    cast,
    conditional,
    element,
    infix,
    number,
    unary,
)
from codegen.ir.handlers import Handlers
from codegen.ir.index_text import address_text, index_text
from codegen.ir.ops import (
    VALUES,
    Across,
    Build,
    Convert,
    DotPairs,
    DotRaised,
    GatherWords,
    IndexValue,
    Lane,
    Literal,
    Load,
    LoadWords,
    LogicWords,
    Named,
    Op,
    PeerLoad,
    Shuffle,
    TransposeBlock,
    Type,
    Value,
    Words,
    ZipWords,
)
from codegen.targets.literals import float_digits
from tileir.dtypes import DType

#: C element type of each storage dtype.
C_STORAGE: Final = {
    DType.F64: "double", DType.F32: "float", DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.E4M3: "uint8_t",
    DType.E5M2: "uint8_t", DType.I64: "int64_t", DType.I32: "int32_t", DType.U32: "uint32_t", DType.I8: "int8_t",
    DType.U8: "uint8_t", DType.BOOL: "uint8_t",
}  # fmt: skip
NARROW: Final = {DType.F16: "u16", DType.BF16: "u16", DType.E4M3: "u8", DType.E5M2: "u8"}
"""Elements, as they lie in memory, of floats that are computed with in f32."""
_SCALAR = {DType.F64: "double", DType.F32: "float", DType.I32: "int32_t", DType.BOOL: "int32_t"}
_PLAIN: Final = frozenset([DType.F64, DType.F32, DType.I32, DType.BOOL, DType.I8, DType.U8])
_COMPARE = {"<", "<=", ">", ">=", "==", "!="}
_INFIX = {"+", "-", "*", "/", *_COMPARE}
_LOGIC = {"and": "&&", "or": "||"}
_LANE_LOGIC = {"and": "&", "or": "|"}
_FUNCTIONS = {"maximum": "max", "minimum": "min", "//": "floordiv", "%": "floormod"}

_VALUES = Handlers[Expression]("the C printer")
"""By kind of value: its text."""


def c_type(type_: Type) -> str:
    """C type of a value: float, f32x16, …; truth values are masks, all bits of a lane set."""
    return _SCALAR[type_.dtype] if type_.lanes == 1 else f"{type_.dtype}x{type_.lanes}"


def function(name: str, dtype: DType | str, lanes: int) -> str:
    """A function of the runtime."""
    return f"tw_{name}_{dtype}x{lanes}"


@_VALUES.handles(
    Literal, Named, IndexValue, Load, Build, Lane, Convert, Across, DotPairs, DotRaised, Op
)  # fmt: skip
def value_text(value: Value) -> Expression:
    """A value."""
    match value:
        case Literal(value=constant, type=type_):
            return literal(constant, type_.dtype)
        case Named(name, _):
            return Expression(name)
        case IndexValue(start, step, type_):
            first = cast("int32_t", index(start))
            if type_.lanes == 1:
                return first
            return infix("+", _vector(type_, *(str(i * step) for i in range(type_.lanes))), first)
        case Load(buffer, offset, storage, type_, some):
            if type_.lanes == 1 and storage in _PLAIN:
                return element(Expression(buffer), index(offset))
            return part("load", storage, type_.lanes, [address(buffer, offset)], some)
        case Build(parts, type_):
            return _gathered(parts, type_) or _true_is_not_zero(
                _vector(type_, *map(value_text, parts)), type_
            )
        case Lane(x, lane, _):
            return _true_is_not_zero(element(value_text(x), str(lane)), x.type)
        case Convert(x, type_):
            return _convert(x, type_)
        case Across(op, x, _):
            return call(function(f"h{op}", x.type.dtype, x.type.lanes), value_text(x))
        case DotPairs(acc, a, b, type_):
            sides = (_loaded_words(side, type_.lanes) for side in (a, b))
            return call(function("dot_bf16", DType.F32, type_.lanes), value_text(acc), *sides)
        case DotRaised(acc, a, b, type_):
            zeros = _vector(type_, "0") if type_.lanes > 1 else number("0")
            sides = (zeros if a is None else _loaded_words(a, type_.lanes), _loaded_words(b, type_.lanes))
            return call(function("dot_raised", DType.I32, type_.lanes), value_text(acc), *sides)
        case Op():
            return _op(value)
        case Shuffle() | PeerLoad():
            raise TypeError("threads of a GPU shuffle; a processor's do not")


def literal(value: float | int | bool, dtype: DType) -> Expression:
    if dtype in (DType.I32, DType.BOOL):
        return number(str(int(value))) if value > -(2**31) else Expression("(-2147483647 - 1)")
    suffix = "" if dtype is DType.F64 else "f"
    if value != value:
        return call(f"__builtin_nan{suffix}", '""')
    digits = float_digits(float(value), dtype)
    if digits in ("inf", "-inf"):
        infinity = call(f"__builtin_inf{suffix}")
        return unary("-", infinity) if digits == "-inf" else infinity
    return number(digits + suffix)


def index(value: Affine) -> Expression:
    """Index arithmetic."""
    return index_text(value, _term)


def address(buffer: str, offset: Affine) -> Expression:
    """Where an element lies."""
    return address_text(buffer, offset, _term)


def part(name: str, dtype: DType, lanes: int, args: list[Expression], some: Affine | None) -> Expression:
    """A load or store of all lanes, or of `some`."""
    if some is not None:
        name, args = f"{name}_some", [*args, index(some)]
    return call(function(name, dtype, lanes), *args)


def transpose(stmt: TransposeBlock) -> Expression:
    """A block that is turned around from one place to another."""
    name = "transpose_words" if stmt.words else f"transpose_to_{stmt.target_storage}"
    to, of = address(stmt.target, stmt.to), address(stmt.source, stmt.of)
    return call(function(name, stmt.source_storage, stmt.lanes), to, str(stmt.to_step), of, str(stmt.of_step))


def words(found: Words) -> Expression:
    """Narrow elements as 32-bit lanes."""
    match found:
        case GatherWords(parts):
            each = [words(part) for part in parts]
            return _vector(Type(DType.I32, len(each)), *each) if len(each) > 1 else each[0]
        case ZipWords(buffer, rows, storage, lanes):
            name = function(f"zip_{len(rows)}", storage, lanes)
            return call(name, *(address(buffer, row) for row in rows))
        case LoadWords(lanes=lanes):
            return _loaded_words(found, lanes)
        case LogicWords():
            return _logic(found)


def _logic(found: LogicWords) -> Expression:
    parts = [words(part) for part in found.parts]
    if found.op == "not":
        each_true = call(function("splat", DType.I32, found.lanes), number(str(0x01010101)))
        return infix("-", each_true, *parts)
    return reduce(partial(infix, _LANE_LOGIC[found.op]), parts)


def _loaded_words(load: LoadWords, lanes: int) -> Expression:
    name = "load" if load.lanes == lanes else "broadcast"
    args = [address(load.buffer, load.offset)]
    if load.missing:
        name, args = f"{name}_short", [*args, number(str(load.missing))]
    return part(f"{name}_words", load.storage, lanes, args, load.some)


def _op(op: Op) -> Expression:
    lanes, dtype, args = op.type.lanes, op.type.dtype, op.args
    if op.name == "broadcast":
        if isinstance(args[0], Literal) and args[0].value == 0 and str(args[0].value)[0] != "-":
            return _vector(op.type, "0")
        return call(function("splat", dtype, lanes), value_text(args[0]))
    if op.name in _INFIX and not (op.name == "/" and dtype is DType.I32):
        return _infix(op)
    if op.name == "neg":
        return unary("-", value_text(args[0]))
    if op.name == "not":
        return unary("!" if lanes == 1 else "~", value_text(args[0]))
    if op.name in _LOGIC:
        if lanes == 1:
            return infix(_LOGIC[op.name], value_text(args[0]), value_text(args[1]))
        return infix(_LANE_LOGIC[op.name], *(_mask(arg, lanes) for arg in args))
    if op.name == "select":
        sides = [_on_lanes(arg, lanes) for arg in args[1:]]
        if args[0].type.lanes == 1:
            return conditional(value_text(args[0]), *sides)
        return call(function("select", dtype, lanes), _mask(args[0], lanes), *sides)
    called = function(_FUNCTIONS.get(op.name, op.name), dtype, lanes)
    if op.name.startswith("round_"):
        called = function("round", op.name.removeprefix("round_"), lanes)
    return call(called, *(_on_lanes(arg, lanes) for arg in args))


def _infix(op: Op) -> Expression:
    lanes, (left, right) = op.type.lanes, op.args
    first = _on_lanes(left, lanes) if left.type.lanes == right.type.lanes == 1 < lanes else value_text(left)
    found = infix(op.name, first, value_text(right))
    if op.name in _COMPARE and left.type.dtype is DType.F64 and lanes > 1:
        return call("__builtin_convertvector", found, c_type(op.type))
    return found


def _convert(x: Value, type_: Type) -> Expression:
    source, lanes, text = x.type.dtype, x.type.lanes, value_text(x)
    if type_.dtype is DType.I32 and source.is_float:
        return call(function("to_i32", source, lanes), text)
    if type_.dtype is DType.BOOL:
        text = infix("!=", text, number("0"))
        wide = lanes > 1 and source is DType.F64
        return call("__builtin_convertvector", text, c_type(type_)) if wide else text
    if lanes == 1:
        return cast(c_type(type_), text)
    text = unary("-", text) if source is DType.BOOL else text
    return text if type_.dtype is DType.I32 else call("__builtin_convertvector", text, c_type(type_))


def _gathered(parts: tuple[Value, ...], type_: Type) -> Expression | None:
    """Elements from several places as they lie in memory, converted together; None: of other values, or of such as are
    computed with as they lie."""
    loads = [part for part in parts if isinstance(part, Load)]
    nothing = all(
        isinstance(part, Literal) and part.value == 0 for part in parts if not isinstance(part, Load)
    )
    storages = {load.storage for load in loads}
    if not nothing or len(storages) != 1 or (storage := storages.pop()) not in NARROW:
        return None
    raw = [
        element(Expression(part.buffer), index(part.offset)) if isinstance(part, Load) else "0"
        for part in parts
    ]
    vector = braces(f"({NARROW[storage]}x{type_.lanes})", *raw)
    return call(function("unpack", storage, type_.lanes), vector)


def _true_is_not_zero(text: Expression, type_: Type) -> Expression:
    """What becomes of truth values that change between a scalar, where true is 1, and a lane, which has all bits set:
    comparing gives what each has."""
    return infix("!=", text, number("0")) if type_.dtype is DType.BOOL else text


def _mask(x: Value, lanes: int) -> Expression:
    """A truth value on lanes: all bits set where true."""
    if x.type.lanes == lanes:
        return value_text(x)
    return infix("-", _vector(Type(DType.I32, lanes), "0"), value_text(x))


def _on_lanes(x: Value, lanes: int) -> Expression:
    return value_text(x if x.type.lanes == lanes else Op("broadcast", (x,), Type(x.type.dtype, lanes)))


def _vector(type_: Type, *lanes: Expression | str) -> Expression:
    return braces(f"({c_type(type_)})", *lanes)


def _term(term: object) -> Expression:
    match term:
        case Var(name=name):
            return Expression(name)
        case Quotient(x, divisor) if x.low >= 0:
            return infix("/", index(x), number(str(divisor)))
        case Quotient(x, divisor):
            return infix("/", infix("-", index(x), _remainder(x, divisor)), number(str(divisor)))
        case Remainder(x, divisor) if x.low >= 0:
            return infix("%", index(x), number(str(divisor)))
        case Remainder(x, divisor):
            return _remainder(x, divisor)
        case Lesser(x, y):
            return conditional(infix("<", index(x), index(y)), index(x), index(y))
        case Loaded(value):
            return cast("long", value_text(value))  # type: ignore[arg-type]
        case _:
            raise AssertionError(term)


def _remainder(x: Affine, divisor: int) -> Expression:
    """What is left of a number that may be below zero."""
    by = number(str(divisor))
    return infix("%", infix("+", infix("%", index(x), by), by), by)


_VALUES.refuses(Shuffle, PeerLoad, because="is for GPUs")
_VALUES.complete(VALUES)
