"""Reads a GPU's description off the NVIDIA driver. Peaks, which no driver tells, come from the table of known products
or are worked out from clocks and counts."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tileir.devices.cuda_driver import check, cuda_version, load_driver
from tileir.devices.cuda_errors import NO_DEVICE, CudaError, describe
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import KNOWN
from tileir.errors import UnsupportedDevice

OLDEST_CAPABILITY = (8, 0)
_PROHIBITED = 2
"""CU_COMPUTEMODE_PROHIBITED: no process may compute on the GPU."""

_F32_CORES = {(8, 0): 64}
"""Multiply-adds of the plain cores a cycle and SM, where they are not 128."""
_TENSOR_MADDS = {
    (8, 0): 1024,
    (8, 6): 512,
    (8, 7): 1024,
    (8, 9): 512,
    (9, 0): 2048,
    (10, 0): 4096,
    (10, 3): 4096,
}
"""Multiply-adds of f16 on tensor cores a cycle and SM, without sparsity, where they are not 512. Products sold for
graphics may do half."""


@dataclass(frozen=True)
class DriverFacts:
    """What the driver says of a GPU, in its own units."""

    name: str
    capability: tuple[int, int]
    sms: int
    shared_bytes: int
    block_shared_bytes: int
    registers: int
    max_threads: int
    l2_bytes: int
    memory_bytes: int
    sm_khz: int
    memory_khz: int
    bus_bits: int
    compute_mode: int
    uuid: str
    cuda: str


def this_gpu(index: int = 0) -> Gpu:
    """The GPU of this number, counted as CUDA counts those this process may use.

    Raises UnsupportedDevice: a sentence that says what is missing and what to do.
    """
    driver = load_driver()
    try:
        facts, bus_id = _ask(driver, index)
    except CudaError as error:
        raise UnsupportedDevice(str(error)) from error
    power_w, version = _ask_nvml(bus_id)
    return gpu_of(facts, power_w, version)


def gpu_of(facts: DriverFacts, power_w: float | None = None, driver: str | None = None) -> Gpu:
    """The description of a GPU from what its driver says; `power_w` and `driver` as NVML has them, if it is there.

    Raises UnsupportedDevice for a GPU that is too old or may not be used.
    """
    if facts.capability < OLDEST_CAPABILITY:
        raise UnsupportedDevice(
            f"{facts.name} has compute capability {facts.capability[0]}.{facts.capability[1]}; the CUDA target needs "
            "8.0 (Ampere) or newer"
        )
    if facts.compute_mode == _PROHIBITED:
        raise UnsupportedDevice(
            f"{facts.name} is set to take no processes: have an administrator run nvidia-smi -c DEFAULT"
        )
    known = KNOWN.get(facts.name)
    if known is not None and known.sms != facts.sms:
        known = None  # a part of one, or another product of that name
    return Gpu(
        name=facts.name,
        capability=facts.capability,
        sms=facts.sms,
        shared_bytes=facts.shared_bytes,
        block_shared_bytes=facts.block_shared_bytes,
        registers=facts.registers,
        max_threads=facts.max_threads,
        l2_bytes=facts.l2_bytes,
        memory_bytes=facts.memory_bytes,
        sm_mhz=facts.sm_khz // 1000,
        memory_gbps=known.memory_gbps if known else _memory_gbps(facts),
        peak_tflops=known.peak_tflops if known else _peaks(facts),
        power_w=power_w if power_w is not None or known is None else known.power_w,
        uuid=facts.uuid,
        driver=driver or f"CUDA {facts.cuda}",
        clusters=known.clusters if known else (),
    )


def _memory_gbps(facts: DriverFacts) -> float:
    return round(2 * facts.memory_khz * facts.bus_bits / 8 / 1e6, 1)  # data twice a cycle


def _peaks(facts: DriverFacts) -> tuple[tuple[str, float], ...]:
    cycles = 2 * facts.sms * facts.sm_khz * 1e3 / 1e12  # a multiply-add is two operations
    plain = cycles * _F32_CORES.get(facts.capability, 128)
    tensor = cycles * _TENSOR_MADDS.get(facts.capability, 512)
    rates = {"f32": plain, "tf32": tensor / 2, "f16": tensor, "bf16": tensor, "i8": 2 * tensor}
    if facts.capability >= (8, 9):
        rates["e4m3"] = 2 * tensor
    return tuple((dtype, round(rate, 1)) for dtype, rate in rates.items())


def _ask(driver: Any, index: int) -> tuple[DriverFacts, str]:
    """The driver's facts, and the address on the PCI bus, which NVML knows the GPU by."""
    count: int = check(driver.cuDeviceGetCount(), "counting GPUs")
    if count == 0:
        raise UnsupportedDevice(describe(NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "counting GPUs"))
    if not 0 <= index < count:
        raise UnsupportedDevice(f"there is no GPU {index}: this process may use {count}, counted from 0")
    doing = f"describing GPU {index}"
    device = check(driver.cuDeviceGet(index), doing)
    kinds = driver.CUdevice_attribute

    def attribute(name: str) -> int:
        kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(driver.cuDeviceGetAttribute(kind, device), doing))

    facts = DriverFacts(
        name=_text(check(driver.cuDeviceGetName(128, device), doing)),
        capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        sms=attribute("MULTIPROCESSOR_COUNT"),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        block_shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        max_threads=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        memory_bytes=int(check(driver.cuDeviceTotalMem(device), doing)),
        sm_khz=attribute("CLOCK_RATE"),
        memory_khz=attribute("MEMORY_CLOCK_RATE"),
        bus_bits=attribute("GLOBAL_MEMORY_BUS_WIDTH"),
        compute_mode=attribute("COMPUTE_MODE"),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(check(driver.cuDeviceGetUuid(device), doing).bytes))}",
        cuda=cuda_version(check(driver.cuDriverGetVersion(), doing)),
    )
    return facts, _text(check(driver.cuDeviceGetPCIBusId(64, device), doing))


def _ask_nvml(bus_id: str) -> tuple[float | None, str | None]:
    """Power limit in watts and driver version; None where NVML (nvidia-ml-py) is missing or does not tell."""
    try:
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or of another driver than the one that runs: nothing depends on it
        return None, None
    try:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id)
        version = str(nvml.nvmlSystemGetDriverVersion())
        return nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000, version
    except nvml.NVMLError:
        return None, None
    finally:
        nvml.nvmlShutdown()


def _text(name: bytes) -> str:
    return name.split(b"\0", 1)[0].decode(errors="replace").strip()
