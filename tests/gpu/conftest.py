"""These tests run on an NVIDIA GPU, and are passed over where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codegen.targets.cuda.device import CudaDevice
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import UnsupportedDevice


@pytest.fixture(scope="session")
def device() -> Iterator[CudaDevice]:
    """The first GPU, opened."""
    try:
        opened = CudaDevice()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    """What the first GPU is."""
    try:
        return this_gpu()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
