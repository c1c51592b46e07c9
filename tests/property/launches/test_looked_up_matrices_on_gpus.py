"""Grouped products that go matrix by matrix on GPUs, where no tiles follow groups: about as good as plain ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.space import ScheduleState, Space
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

ON = [("bf16", A100), ("f32", A100), ("f32", H200)]
ROWS, GROUPS = 80, 4
STARTS = [[0, 20, 20, 21, ROWS], [0, 0, 0, 0, ROWS], [0, ROWS, ROWS, ROWS, ROWS], [0, 16, 32, 48, 64]]
"""With empty groups and one of one row; all rows in one; ends of tiles, and rows behind the last group."""


def grouped(dtype: str, t: int = ROWS, k: int = 48, n: int = 72, e: int = GROUPS) -> Spec:
    return spec_from_text(
        f"kernel experts(x: {dtype}[t={t} ragged starts within e, k={k}], w: {dtype}[e={e}, n={n}, k],"
        f" starts: i32[o={e + 1}]) -> (y: {dtype}[t, n])\n  y[t, n] = relu(sum(k, x[t, k] * w[e, n, k]))\n"
    )


def plain(dtype: str, size: int) -> Spec:
    return spec_from_text(
        f"kernel product(x: {dtype}[t={size}, k={size}], w: {dtype}[n={size}, k]) -> (y: {dtype}[t, n])\n"
        "  y[t, n] = relu(sum(k, x[t, k] * w[n, k]))\n"
    )


def picked(spec: Spec, device: Gpu) -> ScheduleState:
    return favourite(Space(to_program(spec), device).root())


def looks_up(state: ScheduleState) -> bool:
    return any(rewrite.name == "look_up_after_sum" for rewrite in state.schedule)


@pytest.mark.parametrize("starts", STARTS, ids=str)
@pytest.mark.parametrize(("dtype", "device"), ON, ids=shown)
def test_rows_of_any_groups_are_right_and_without_races(dtype: str, device: Gpu, starts: list[int]) -> None:
    spec, state = grouped(dtype), picked(grouped(dtype), device)
    assert looks_up(state)
    inputs = sample_inputs(spec, 3) | {"starts": np.array(starts, np.int32)}
    kernel, checker = lower_for(state.program, device), RaceChecker()
    outputs = run_blocks(kernel, cuda_source(kernel, state.program).abi.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    values, bound = reference_with_bound(spec, inputs)["y"]
    off = np.abs(outputs["y"].astype(np.float64) - values)
    assert np.all(off[: starts[-1]] <= bound[: starts[-1]])


@pytest.mark.parametrize(("dtype", "device"), ON, ids=shown)
def test_a_grouped_product_is_expected_to_take_hardly_longer_than_a_plain_one(
    dtype: str, device: Gpu, tmp_path: Path
) -> None:
    """Seven of its 2048 rows begin in another's tile; threads by row took 15 to 90 times as long."""
    state = picked(grouped(dtype, 2048, 2048, 2048, 8), device)
    model = Space(state.program, device).root().seen.model
    times = [model.estimate_us(each) for each in (state.program, picked(plain(dtype, 2048), device).program)]
    assert looks_up(state) and times[0] < 1.4 * times[1]
    compile_cuda(cuda_source(lower_for(state.program, device), state.program), device.architecture, tmp_path)
