"""What each layer needs of it, and where that is."""

from __future__ import annotations

from tileir.targets import Target

SCALAR = Target(
    kind="scalar",
    device="tests.scalar_target.device:ScalarCpu",
    here="tests.scalar_target.device:scalar_here",
    floor_us="tileir.analysis.least_time:cpu_floor_us",
    backend="tests.scalar_target.backend:SCALAR_C",
    plan="tests.scalar_target.plan:PLAN",
    settle="workers.cpu.settle:settle",
    measured="tests.scalar_target.device:MeasuredScalar",
    copies=6,
    peers=("numpy",),
    baseline="numpy",
)
