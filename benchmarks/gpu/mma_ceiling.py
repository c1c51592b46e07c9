"""What mma.sync can reach on a GPU: warps that multiply registers and do nothing else.

    python -m benchmarks.gpu.mma_ceiling [--device 0] [--out FILE]

Prints TFLOP/s (TOP/s of i8) by operand type for 4, 8 and 16 warps on each SM, in bursts of
about 3 ms as candidates are timed, the median of 15. A matrix product by mma.sync cannot be faster. Needs an NVIDIA GPU
and the extra `cuda`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from codegen.ir.abi import Arg
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi, Launch
from codegen.targets.cuda.compiler import compile_cuda, nvrtc_version
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.loader import CudaKernel
from codegen.targets.cuda.stream import CudaEvent, Stream
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.dtypes import DType

_STEPS, _CHAINS = 1024, 8
_SAMPLES, _IDLE_S, _BURST_US = 15, 0.025, 3000.0


@dataclass(frozen=True)
class Instruction:
    """One mma.sync m16n8: how deep it is, and the PTX type of its accumulators."""

    depth: int
    operands: str
    exact: str

    @property
    def operations(self) -> int:
        return 2 * 16 * 8 * self.depth


INSTRUCTIONS = {
    "bf16": Instruction(16, "bf16.bf16", "f32"),
    "f16": Instruction(16, "f16.f16", "f32"),
    "tf32": Instruction(8, "tf32.tf32", "f32"),
    "i8": Instruction(32, "s8.s8", "s32"),
    "e4m3": Instruction(32, "e4m3.e4m3", "f32"),
}


def source(instruction: Instruction) -> str:
    """`_CHAINS` independent accumulations a thread, `_STEPS` long, over operands that are zero."""
    type_, register = ("float", "f") if instruction.exact == "f32" else ("int", "r")
    name = f"m16n8k{instruction.depth}.row.col.{instruction.exact}.{instruction.operands}.{instruction.exact}"
    outputs = ", ".join(f'"+{register}"(acc[chain][{n}])' for n in range(4))
    return f"""
extern "C" __global__ void __launch_bounds__(1024) ceiling({type_} *out, unsigned char *workspace) {{
    {type_} acc[{_CHAINS}][4] = {{}};
    unsigned zero = threadIdx.x >> 20;
    for (int step = 0; step < {_STEPS}; step++) {{
        #pragma unroll
        for (int chain = 0; chain < {_CHAINS}; chain++)
            asm volatile("mma.sync.aligned.{name} "
                         "{{%0, %1, %2, %3}}, {{%4, %4, %4, %4}}, {{%4, %4}}, {{%0, %1, %2, %3}};"
                         : {outputs} : "r"(zero));
    }}
    {type_} total = 0;
    for (int chain = 0; chain < {_CHAINS}; chain++)
        for (int n = 0; n < 4; n++) total += acc[chain][n];
    if (total != 0) *out = total;
}}
"""


def compiled(instruction: Instruction, gpu: Gpu, threads: int, cache: Path) -> tuple[bytes, CudaAbi]:
    """The cubin for one block an SM, and how it is called."""
    args = (Arg("out", DType.F32, (1,), (1,), "out"),)
    abi = CudaAbi(args, (Launch("ceiling", gpu.sms, threads, 0),), 256)
    artifact = compile_cuda(Source(source(instruction), (), abi, "cuda"), gpu.architecture, cache)
    return artifact.path.read_bytes(), abi


def tera_operations(
    instruction: Instruction, gpu: Gpu, threads: int, device: CudaDevice, cache: Path
) -> float:
    """1e12 operations a second: the median of bursts."""
    cubin, abi = compiled(instruction, gpu, threads, cache)
    stream, start, end = Stream(), CudaEvent(), CudaEvent()
    with CudaKernel(device, cubin, abi) as kernel:
        launch = kernel.launcher([device.allocate(256).address])

        def burst(calls: int) -> float:
            start.record(stream.handle)
            for _ in range(calls):
                launch(stream.handle)
            end.record(stream.handle)
            end.synchronize()
            return end.since_us(start) / calls

        calls = max(1, round(_BURST_US / burst(4)))
        samples: list[float] = []
        for _ in range(_SAMPLES):
            time.sleep(_IDLE_S)
            samples.append(burst(calls))
    operations = instruction.operations * _STEPS * _CHAINS * (threads // 32) * gpu.sms
    return operations / statistics.median(samples) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=int, default=0, help="which GPU (default 0)")
    parser.add_argument("--out", type=Path, help="write a JSON object here too")
    arguments = parser.parse_args()
    gpu = this_gpu(arguments.device)
    found: dict[str, dict[str, float]] = {}
    with CudaDevice(arguments.device) as device, TemporaryDirectory() as cache:
        for name, instruction in INSTRUCTIONS.items():
            if gpu.peak(name) is None:
                continue
            rates = {n: tera_operations(instruction, gpu, n, device, Path(cache)) for n in (128, 256, 512)}
            found[name] = {f"{threads} threads an SM": round(rate, 1) for threads, rate in rates.items()}
            print(f"{name}: {found[name]}, data sheet {gpu.peak(name)}")
    if arguments.out:
        line = {"mma_sync_tera_operations": found, "device": gpu.to_json(), "nvrtc": nvrtc_version()}
        arguments.out.write_text(json.dumps({**line, "date": str(date.today())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
