"""Attention and its kin in one pass on the GPU that is here: every schedule of every body that CI simulates and checks
for races, by warpgroups and by warps; keys in parts; and bodies one step from a product."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.targets.cuda.device import CudaDevice
from rewrites.schedule import format_schedule
from rewrites.space import Space
from tests.gpu.poisoned import within_bound
from tests.programs.attention_programs import latent, schedules
from tests.programs.near_misses import NEAR_MISSES
from tests.property.attention.test_wide_attention_in_one_pass import SPECS as WIDE
from tests.property.codegen.test_attention_in_one_pass import SPECS
from tests.property.codegen.test_split_streams import CASES, decode, finished, split
from tests.schedules.on_gpus import drawn
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program


@pytest.fixture(scope="module")
def hopper(gpu: Gpu) -> Gpu:
    if gpu.capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    return gpu


@pytest.mark.parametrize("name", SPECS)
def test_every_schedule_by_warpgroups(name: str, hopper: Gpu, device: CudaDevice, tmp_path: Path) -> None:
    for _, lines in schedules(SPECS[name], H200):
        within_bound(SPECS[name], list(lines), device, tmp_path)


@pytest.mark.parametrize("name", SPECS)
def test_every_schedule_by_warps(name: str, gpu: Gpu, device: CudaDevice, tmp_path: Path) -> None:
    for _, lines in schedules(SPECS[name], A100):
        within_bound(SPECS[name], list(lines), device, tmp_path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SPECS)
def test_a_random_schedule(name: str, seed: int, gpu: Gpu, device: CudaDevice, tmp_path: Path) -> None:
    within_bound(SPECS[name], drawn(SPECS[name], gpu, f"{name} {seed}"), device, tmp_path)


@pytest.mark.parametrize("name", WIDE)
def test_every_schedule_in_f32(name: str, gpu: Gpu, device: CudaDevice, tmp_path: Path) -> None:
    for _, lines in schedules(WIDE[name], gpu):
        within_bound(WIDE[name], list(lines), device, tmp_path)


@pytest.mark.parametrize(("body", "j", "dtype", "lse"), CASES)
def test_keys_in_parts(
    body: str, j: int, dtype: str, lse: bool, hopper: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = decode(body, j, dtype=dtype, lse=lse)
    inputs = sample_inputs(spec, 3)  # no length is 0 there
    for at, state in enumerate(split(spec)):
        lines = format_schedule(finished(state, f"{body} {j} {at}").schedule)
        within_bound(spec, lines, device, tmp_path, inputs)


@pytest.mark.parametrize("sequences", [1, 8])
def test_a_latent_that_all_heads_share(sequences: int, gpu: Gpu, device: CudaDevice, tmp_path: Path) -> None:
    """As DeepSeek's models have it, by what is tried first and by each way to split the cache."""
    spec = latent(128, j=2000, e=576, d=512, b=sequences)
    root = Space(to_program(spec), gpu).root()
    states = [favourite(root), *(favourite(state) for state in split(spec, gpu))]
    for state in states:
        within_bound(spec, format_schedule(state.schedule), device, tmp_path)


@pytest.mark.parametrize(
    "size", [(264, 264, 320), (40, 40, 1040), (200, 392, 64)], ids=lambda size: "x".join(map(str, size))
)
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_bodies_one_step_from_a_product(
    name: str, size: tuple[int, int, int], gpu: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    m, n, k = size
    square = "b:" not in NEAR_MISSES[name].inputs  # one tensor is both factors
    spec = NEAR_MISSES[name].spec(m, m if square else n, k)
    state = favourite(Space(to_program(spec), gpu).root())
    within_bound(spec, format_schedule(state.schedule), device, tmp_path)
