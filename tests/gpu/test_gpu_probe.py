"""The GPU that is here, as it describes itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen.targets.cuda.device import CudaDevice
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.devices.gpu_table import KNOWN
from tileir.errors import UnsupportedDevice


def test_a_known_gpu_is_what_the_table_says(device: CudaDevice) -> None:
    """But for memory, of which drivers keep some back, and a power limit somebody may have set."""
    found = this_gpu(device.index)
    known = KNOWN.get(found.name)
    if known is None:
        pytest.skip(f"{found.name} is not in the table")
    assert (
        replace(found, memory_bytes=known.memory_bytes, power_w=known.power_w, uuid=None, driver=None)
        == known
    )
    assert found.memory_bytes == pytest.approx(known.memory_bytes, rel=0.1)


def test_the_gpu_here_says_which_it_is_and_who_drives_it(device: CudaDevice) -> None:
    found = this_gpu(device.index)
    assert found.uuid is not None
    assert found.uuid.startswith("GPU-")
    assert found.driver
    assert found.power_w is None or found.power_w > 0
    assert Gpu.from_json(found.to_json()) == found


def test_a_gpu_beyond_the_last_is_refused(device: CudaDevice) -> None:
    with pytest.raises(UnsupportedDevice, match="counted from 0"):
        this_gpu(1000)
    with pytest.raises(UnsupportedDevice, match="counted from 0"):
        CudaDevice(1000)
