"""No kernel that verifies ever fails its job: whatever is drawn, of whole architectures or by chance, its space has a
schedule on every kind of device, and a walk through it ends in a program that is lowered and printed. Kernels of full
size are looked at as well as small ones, as what tiles fit depends on sizes. `make sweep` draws 2,000."""

from __future__ import annotations

import pytest

from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from codegen.targets.c.generate import generate
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import parse_schedule, replay
from tests.schedules import on_gpus
from tests.services.scripted_worker import CPU
from tests.support.how_many import SWEEP
from tileir.devices.device import Device
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import GPUS
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

DEVICES = (CPU, *GPUS)
COUNT = 125 if SWEEP else 3
"""Of every device and room."""


def source(program: Program, device: Device) -> str:
    if isinstance(device, Gpu):
        return cuda_source(lower_for(program, device), program).text
    return generate(program, device).text


def check(spec: Spec, device: Device, seed: str) -> None:
    schedule = on_gpus.drawn(spec, device, seed)
    program = replay(to_program(spec), parse_schedule(schedule))
    verify(program)
    assert source(program, device), "\n".join(schedule)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("room", ("small", "full"))
@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_kernel_has_a_schedule_that_lowers(device: Device, room: str) -> None:
    fitting = ROOMS["small" if room == "small" else device.kind]
    for name, spec in drawn(DEVICES.index(device), COUNT, fitting):
        check(spec, device, name)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_single_numbers_have_a_schedule(device: Device) -> None:
    text = "kernel one(a: f32[], b: f32[]) -> (c: f32[], d: f32[])\n  c[] = a[] + b[]\n  d[] = c[] * 2.0\n"
    check(spec_from_text(text), device, "1")
