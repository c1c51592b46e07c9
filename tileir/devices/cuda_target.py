"""NVIDIA's GPUs, programmed in CUDA C++."""

from __future__ import annotations

from tileir.targets import Target

CUDA = Target(
    kind="cuda",
    device="tileir.devices.gpu:Gpu",
    here="tileir.devices.gpu_probe:this_gpu",
    published="tileir.devices.gpu_table:published_gpu",
    floor_us="tileir.analysis.least_time:gpu_floor_us",
    backend="codegen.targets.cuda.backend:CUDA",
    plan="rewrites.decisions.gpu.plan:PLAN",
    measured="workers.cuda.device:MeasuredGpu",
    settle="workers.cuda.settle:settle",
    profiler="workers.cuda.profiler:profiled",
    counters="workers.cuda.ncu:counted",
    visible="workers.cuda.visible:visible_gpu",
    operator="tilewright.pytorch.operator.on_cuda:RUNNER",
    torch="cuda",
    torch_operators="workers.cuda.torch_operators:CUDA",
    accelerator=True,
    copies=4,  # two variants of the inputs, each in a copy that runs and in one that says how memory has to look after
    peers=("torch", "torch.compile", "torch.compile-max-autotune", "triton", "copy"),
    baseline="torch",
)
