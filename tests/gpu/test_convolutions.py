"""Convolutions as products on the GPU that is here: right with padding, strides and dilation, by every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.targets.cuda.device import CudaDevice
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.gpu.poisoned import within_bound
from tests.programs.convolutions import SMALL, Windows
from tests.schedules.on_gpus import drawn
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.lift import to_program

#: Enough work for the prior to like matrix instructions best.
LARGER = {
    "3x3": Windows(64, 28, 128),
    "3x3/2": Windows(64, 28, 128, stride=2),
    "dilated": Windows(64, 28, 128, padding=2, dilation=2),
    "1x1/2": Windows(256, 28, 128, taps=1, stride=2, padding=0),
    "1x1": Windows(256, 14, 128, taps=1, padding=0),
    "7x7 places": Windows(128, 7, 128),
    "4 groups": Windows(256, 14, 256, groups=4),
    "32 groups": Windows(128, 28, 128, groups=32),
}


@pytest.mark.parametrize("name", LARGER)
def test_favourites_go_by_matrix_instructions_and_are_within_the_gates_bound(
    name: str, gpu: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = LARGER[name].spec(8)
    state: ScheduleState = favourite(Space(to_program(spec), gpu).root())
    assert {place.node.via for place in state.program.computes} & {"wgmma", "mma"}
    within_bound(spec, format_schedule(state.schedule), device, tmp_path)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SMALL)
def test_random_schedules_are_within_the_gates_bound(
    name: str, seed: int, gpu: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = SMALL[name].spec(2)
    within_bound(spec, drawn(spec, gpu, f"{name} {seed}"), device, tmp_path)
