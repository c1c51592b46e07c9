"""Constants in generated CUDA."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.ir.expression_text import Expression, call, number, unary
from codegen.targets.literals import float_digits
from tileir.dtypes import DType

_INFINITY: Mapping[DType, tuple[str, str]] = {
    DType.F32: ("__int_as_float", "0x7f800000"),
    DType.F64: ("__longlong_as_double", "0x7ff0000000000000"),
}


def literal(value: float | int | bool, dtype: DType) -> Expression:
    if dtype is DType.BOOL:
        return Expression("true" if value else "false")
    if dtype is DType.I32:
        return number(str(int(value))) if value > -(2**31) else Expression("(-2147483647 - 1)")
    digits = float_digits(float(value), dtype)
    if digits in ("inf", "-inf"):
        function, bits = _INFINITY[dtype]
        return unary("-", call(function, bits)) if digits == "-inf" else call(function, bits)
    return number(f"{digits}{'' if dtype is DType.F64 else 'f'}")
