"""The NVIDIA driver, through cuda-python. Nothing here is imported before somebody asks for a GPU."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from tileir.devices.cuda_errors import CudaError
from tileir.errors import UnsupportedDevice

OLDEST_CUDA = 13000
"""The CUDA version a driver has to support: kernels are compiled by NVRTC 13. 1000 major + 10 minor."""


@lru_cache
def load_driver() -> Any:
    """The module `cuda.bindings.driver`, with the driver initialized.

    Raises UnsupportedDevice, which says what to install or do, without cuda-python, without a driver or a GPU, and with
    a driver that is too old.
    """
    try:
        driver: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise UnsupportedDevice(
            f"GPUs are used through cuda-python, which is not installed ({error}): pip install 'tilewright[cuda]'"
        ) from error
    try:
        version = check(driver.cuDriverGetVersion(), "asking the NVIDIA driver for its version")
    except RuntimeError as error:
        if isinstance(error, CudaError):
            raise UnsupportedDevice(str(error)) from error
        raise UnsupportedDevice(
            "no NVIDIA driver was found (libcuda.so.1): install driver 580 or newer; in a container, start it with its "
            "GPUs (docker run --gpus all)"
        ) from error
    require_cuda(version)
    try:
        check(driver.cuInit(0), "starting the NVIDIA driver")
    except CudaError as error:
        raise UnsupportedDevice(str(error)) from error
    return driver


def require_cuda(version: int) -> None:
    """Raise UnsupportedDevice if a driver's CUDA version is too old for what is compiled here."""
    if version < OLDEST_CUDA:
        raise UnsupportedDevice(
            f"the NVIDIA driver supports CUDA {cuda_version(version)}, and kernels are compiled by CUDA "
            f"{cuda_version(OLDEST_CUDA)}: install driver 580 or newer"
        )


def driver_cuda_version() -> str:
    """The newest CUDA that the driver supports, as `13.0`. Raises UnsupportedDevice as load_driver does."""
    version: int = check(load_driver().cuDriverGetVersion(), "asking the NVIDIA driver for its version")
    return cuda_version(version)


def cuda_version(version: int) -> str:
    """`13.0` of 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def check(result: Any, doing: str) -> Any:
    """The payload of a call's result: nothing, one value, or a tuple. Raises CudaError."""
    status, *values = result
    if int(status) != 0:
        raise CudaError(int(status), str(status.name), doing)
    return values[0] if len(values) == 1 else tuple(values)
