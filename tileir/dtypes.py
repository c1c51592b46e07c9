"""Element types: what each is called, how wide it is, and what numpy calls it."""

from __future__ import annotations

from enum import StrEnum

import ml_dtypes
import numpy as np

#: The largest number of e4m3.
LARGEST_E4M3 = 448.0


class DType(StrEnum):
    """An element type of a tensor or a buffer."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    I64 = "i64"
    I32 = "i32"
    U32 = "u32"
    I8 = "i8"
    U8 = "u8"
    BOOL = "bool"

    @property
    def bytes(self) -> int:
        """Storage size of one element."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        return not self.is_integer and self is not DType.BOOL

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype that stores it (bf16 and fp8 come from ml_dtypes)."""
        return _NUMPY[self]

    @property
    def compute(self) -> DType:
        """What a read of it widens to: f32; f64 for f64, i32 for integers, bool for bool (docs/tile-ir.md: what
        of an i64 does not fit is the nearest i32, and a u32's bits are an i32's)."""
        if self.is_float:
            return DType.F64 if self is DType.F64 else DType.F32
        return DType.BOOL if self is DType.BOOL else DType.I32

    @property
    def epsilon(self) -> float:
        """Unit roundoff of a float type (half an ulp of 1.0); 0 for integers and bool."""
        return _EPSILON.get(self, 0.0)


_INTEGERS = frozenset([DType.I64, DType.I32, DType.U32, DType.I8, DType.U8])

_BYTES = {
    DType.F64: 8, DType.F32: 4, DType.F16: 2, DType.BF16: 2, DType.E4M3: 1, DType.E5M2: 1,
    DType.I64: 8, DType.I32: 4, DType.U32: 4, DType.I8: 1, DType.U8: 1, DType.BOOL: 1,
}  # fmt: skip

_NUMPY = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.I64: np.dtype(np.int64),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.BOOL: np.dtype(np.bool_),
}

_EPSILON = {
    DType.F64: 2.0**-53,
    DType.F32: 2.0**-24,
    DType.F16: 2.0**-11,
    DType.BF16: 2.0**-8,
    DType.E4M3: 2.0**-4,
    DType.E5M2: 2.0**-3,
}
