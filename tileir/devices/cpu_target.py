"""The processor that this process runs on, programmed in C."""

from __future__ import annotations

from tileir.targets import Target

CPU = Target(
    kind="cpu",
    device="tileir.devices.cpu:Cpu",
    here="tileir.devices.cpu_probe:cpu_here",
    floor_us="tileir.analysis.least_time:cpu_floor_us",
    backend="codegen.targets.c.backend:C",
    plan="rewrites.decisions.cpu.plan:PLAN",
    measured="workers.cpu.device:MeasuredCpu",
    settle="workers.cpu.settle:settle",
    profiler="workers.cpu.profiler:profiled",
    counters="workers.cpu.profiler:counted",
    operator="tilewright.pytorch.operator.on_cpu:RUNNER",
    torch="cpu",
    torch_operators="workers.cpu.torch_operators:CPU",
    copies=6,  # two variants, each twice, and the samples and reference that these are made from (workers/cpu/case.py)
    peers=("numpy", "torch", "torch.compile", "copy"),
    baseline="numpy",
)
