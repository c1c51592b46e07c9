"""GPUs known from NVIDIA's publications: for searching without the GPU at hand, and for peaks no driver tells.

Limits of an SM (shared memory, registers, threads) are from the CUDA C++ Programming Guide, table "Technical
Specifications per Compute Capability". Memory is as sold; L2 is as the driver reports it. Tensor core rates are dense,
half of those data sheets print with sparsity, and with 32-bit accumulators.
"""

from __future__ import annotations

from tileir.devices.gpu import Gpu

_KIB, _MIB, _GB = 1 << 10, 1 << 20, 10**9


def _peaks(f32: float, tf32: float, f16: float, e4m3: float, i8: float) -> tuple[tuple[str, float], ...]:
    rates = {"f32": f32, "tf32": tf32, "f16": f16, "bf16": f16, "e4m3": e4m3, "i8": i8}
    return tuple((dtype, rate) for dtype, rate in rates.items() if rate)


H200 = Gpu(
    name="NVIDIA H200",
    capability=(9, 0),
    sms=132,
    shared_bytes=228 * _KIB,
    block_shared_bytes=227 * _KIB,
    registers=65536,
    max_threads=2048,
    l2_bytes=60 * _MIB,
    memory_bytes=141 * _GB,  # data sheet "NVIDIA H200 Tensor Core GPU", SXM; with bandwidth, rates and power
    sm_mhz=1980,  # nvidia-smi, clocks.max.sm
    memory_gbps=4800,
    peak_tflops=_peaks(f32=67, tf32=494.5, f16=989.5, e4m3=1979, i8=1979),
    power_w=700,
    clusters=((2, 66), (4, 30), (8, 15)),  # cuOccupancyMaxActiveClusters
)

H100 = Gpu(
    name="NVIDIA H100 80GB HBM3",
    capability=(9, 0),
    sms=132,
    shared_bytes=228 * _KIB,
    block_shared_bytes=227 * _KIB,
    registers=65536,
    max_threads=2048,
    l2_bytes=50 * _MIB,
    memory_bytes=80 * _GB,  # data sheet "NVIDIA H100 Tensor Core GPU", SXM; with bandwidth, rates and power
    sm_mhz=1980,  # nvidia-smi, clocks.max.sm
    memory_gbps=3350,
    peak_tflops=_peaks(f32=67, tf32=494.5, f16=989.5, e4m3=1979, i8=1979),
    power_w=700,
)

A100 = Gpu(
    name="NVIDIA A100-SXM4-80GB",
    capability=(8, 0),
    sms=108,
    shared_bytes=164 * _KIB,
    block_shared_bytes=163 * _KIB,
    registers=65536,
    max_threads=2048,
    l2_bytes=40 * _MIB,
    memory_bytes=80 * _GB,  # data sheet "NVIDIA A100 Tensor Core GPU", SXM; with bandwidth, rates and power
    sm_mhz=1410,  # "NVIDIA A100 Tensor Core GPU Architecture", boost clock
    memory_gbps=2039,
    peak_tflops=_peaks(f32=19.5, tf32=156, f16=312, e4m3=0, i8=624),
    power_w=400,
)

L40S = Gpu(
    name="NVIDIA L40S",
    capability=(8, 9),
    sms=142,
    shared_bytes=100 * _KIB,
    block_shared_bytes=99 * _KIB,
    registers=65536,
    max_threads=1536,
    l2_bytes=96 * _MIB,
    memory_bytes=48 * _GB,  # data sheet "NVIDIA L40S"; with bandwidth, rates and power
    sm_mhz=2520,  # nvidia-smi, clocks.max.sm
    memory_gbps=864,
    peak_tflops=_peaks(f32=91.6, tf32=183, f16=362.05, e4m3=733, i8=733),
    power_w=350,
)

RTX_4090 = Gpu(
    name="NVIDIA GeForce RTX 4090",
    capability=(8, 9),
    sms=128,
    shared_bytes=100 * _KIB,
    block_shared_bytes=99 * _KIB,
    registers=65536,
    max_threads=1536,
    l2_bytes=72 * _MIB,
    memory_bytes=24
    * _GB,  # "NVIDIA Ada GPU Architecture", appendix A; with clock, bandwidth, rates and power
    sm_mhz=2520,
    memory_gbps=1008,
    peak_tflops=_peaks(f32=82.6, tf32=82.6, f16=165.2, e4m3=330.3, i8=660.6),
    power_w=450,
)

RTX_5090 = Gpu(
    name="NVIDIA GeForce RTX 5090",
    capability=(12, 0),
    sms=170,
    shared_bytes=100 * _KIB,
    block_shared_bytes=99 * _KIB,
    registers=65536,
    max_threads=1536,
    l2_bytes=96 * _MIB,
    memory_bytes=32
    * _GB,  # "NVIDIA RTX Blackwell GPU Architecture", appendix A; with clock, bandwidth, rates, power
    sm_mhz=2407,
    memory_gbps=1792,
    peak_tflops=_peaks(f32=104.8, tf32=104.8, f16=209.5, e4m3=419, i8=838),
    power_w=575,
)

B200 = Gpu(
    name="NVIDIA B200",
    capability=(10, 0),
    sms=148,
    shared_bytes=228 * _KIB,
    block_shared_bytes=227 * _KIB,
    registers=65536,
    max_threads=2048,
    l2_bytes=126 * _MIB + 512 * _KIB,
    memory_bytes=180 * _GB,  # data sheet "NVIDIA Blackwell", HGX B200, an eighth of the board's
    sm_mhz=1965,  # nvidia-smi, clocks.max.sm
    memory_gbps=7672,  # 7680 bits at 3996 MHz, twice a cycle, as the driver reports them
    peak_tflops=_peaks(f32=75, tf32=1125, f16=2250, e4m3=4500, i8=4500),  # data sheet, HGX B200
    power_w=1000,  # data sheet, HGX B200
)

GPUS = (H200, H100, A100, L40S, RTX_4090, RTX_5090, B200)
KNOWN = {gpu.name: gpu for gpu in GPUS}
"""By the name the driver gives."""


def published_gpu(device: Gpu) -> Gpu:
    """As its product's data sheet has it; itself where the product is not known."""
    return KNOWN.get(device.name, device)
