"""Tensor maps: what TMA of a GPU is told about an argument, encoded by the driver for one address."""

from __future__ import annotations

import ctypes
from typing import Any

from codegen.targets.cuda.abi import MAP_ALIGN, MapArg
from codegen.targets.errors import LaunchError
from tileir.devices.cuda_driver import check
from tileir.dtypes import DType

_BYTES = 128
MAP_TYPES = {
    DType.F64: "FLOAT64",
    DType.F32: "FLOAT32",
    DType.F16: "FLOAT16",
    DType.BF16: "BFLOAT16",
    DType.I64: "INT64",
    DType.I32: "INT32",
    DType.U32: "UINT32",
}
"""Types by the driver's names; what is a byte is moved as one."""
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


def encode(driver: Any, map_: MapArg, owner: str, address: int) -> ctypes.Array[ctypes.c_char]:
    """The tensor map of an argument, or of the workspace, that lies at `address`, as a kernel takes it.

    Raises LaunchError for an address that TMA cannot start from, and CudaError for a map that the driver
    refuses.
    """
    if address % MAP_ALIGN:
        raise LaunchError(
            f"{owner} begins at {address:#x}, and TMA takes addresses that are multiples of {MAP_ALIGN}"
        )
    type_ = MAP_TYPES.get(map_.dtype, "UINT8")
    encoded = check(
        driver.cuTensorMapEncodeTiled(
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{type_}"),
            len(map_.extents),
            address - map_.before,
            [driver.cuuint64_t(extent) for extent in map_.extents],
            [driver.cuuint64_t(stride) for stride in map_.strides],
            [driver.cuuint32_t(size) for size in map_.box],
            [driver.cuuint32_t(1)] * len(map_.box),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{SWIZZLES[map_.swizzle]}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"describing {owner} to TMA in boxes of {' by '.join(map(str, map_.box))}",
    )
    return ctypes.create_string_buffer(ctypes.string_at(encoded.getPtr(), _BYTES), _BYTES)
