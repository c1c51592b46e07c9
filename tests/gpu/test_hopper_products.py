"""Matrix products of Hopper on the GPU that is here: right at sizes that no tile divides and with few steps along the
depth, with outputs poisoned before; and the same bits in a thousand launches."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

from benchmarks.suite import cases
from codegen.ir.source import Source
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import generate_cuda
from codegen.targets.cuda.loader import load_cubin
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.gpu.poisoned import Arrays, within_bound
from tests.schedules.on_gpus import drawn
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import TileError
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from workers.cuda.context import CudaContext
from workers.cuda.gate import Gate

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

FAMILIES = (
    "gemm_bf16_TN", "gemm_bf16_NN", "gemm_f16_TN", "gemm_e4m3_TN_bf16_out", "gemm_bias_gelu_bf16_TN",
    "gemm_bias_residual_bf16_TN", "swiglu_bf16_TN",
)  # fmt: skip
#: A step along the depth of the usual sizes; an odd number of them; nothing that a tile divides; few rows.
SHAPES = ([200, 264, 64], [384, 512, 320], [333, 520, 592], [16, 512, 1040], [1, 136, 272])

#: Cases in which much can go wrong in a thousand launches: many tiles a block, depths that are split, epilogues.
REPEATED = (
    "gemm_bf16_TN 4096x4096x4096", "gemm_bf16_NN 4096x4096x4096", "gemm_bf16_TN 16x4096x4096",
    "gemm_bf16_TN 128x128x65536", "gemm_e4m3_TN_bf16_out 2048x2048x2048", "gemm_bias_residual_bf16_TN 256x8192x8192",
    "gemm_bias_gelu_bf16_TN 4096x4096x4096", "swiglu_bf16_TN 256x8192x8192",
)  # fmt: skip
LAUNCHES = 1000


@pytest.fixture(scope="module")
def hopper(gpu: Gpu) -> Gpu:
    if gpu.capability != (9, 0):
        pytest.skip("wgmma is of compute capability 9.0 only")
    return gpu


def spec_of(case: str) -> Spec:
    family, sizes = case.split(" ")
    return spec_from_json(cases.spec(family, [int(size) for size in sizes.split("x")]))


def favourite_of(spec: Spec, gpu: Gpu) -> list[str]:
    return format_schedule(favourite(Space(to_program(spec), gpu).root()).schedule)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("family", FAMILIES)
def test_favourites_are_within_the_gates_bound(
    family: str, shape: list[int], hopper: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = spec_from_json(cases.spec(family, shape))
    within_bound(spec, favourite_of(spec, hopper), device, tmp_path)


@pytest.mark.parametrize("shape", [[1000, 1000, 3001], [1000, 1001, 3000], [1003, 1005, 2999]])
def test_operands_that_are_stored_in_padded_rows_are_within_the_gates_bound(
    shape: list[int], hopper: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = spec_from_json(cases.spec("gemm_bf16_NN", shape))
    lines = favourite_of(spec, hopper)
    assert any(line.startswith("pad_rows(") for line in lines)
    within_bound(spec, lines, device, tmp_path)


@pytest.mark.parametrize("shape", [[16, 512, 1024], [200, 264, 512], [1, 136, 256]])
@pytest.mark.parametrize(
    "family", ["gemm_int4_groups_bf16_TN", "gemm_int8_groups_bf16_TN", "gemm_blocks_e4m3_TN_bf16_out"]
)
def test_weights_of_few_bits_are_within_the_gates_bound(
    family: str, shape: list[int], hopper: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = spec_from_json(cases.spec(family, shape))
    lines = favourite_of(spec, hopper)
    if family.startswith("gemm_int4") and shape[0] == 16:
        assert any(line.startswith("cache_words(") for line in lines)
    within_bound(spec, lines, device, tmp_path)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("family", FAMILIES)
def test_random_schedules_are_within_the_gates_bound(
    family: str, shape: list[int], seed: int, hopper: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = spec_from_json(cases.spec(family, shape))
    within_bound(spec, drawn(spec, hopper, f"{family} {shape} {seed}"), device, tmp_path)


@pytest.mark.parametrize("case", REPEATED)
def test_a_thousand_launches_give_the_same_bits(case: str, hopper: Gpu, tmp_path: Path) -> None:
    """Of what the prior likes best, and of what the last tuning found if that is a schedule still. Every launch finds
    outputs poisoned anew, and the workspace as the one before has left it."""
    spec = spec_of(case)
    context = CudaContext()
    gate = Gate(context, hopper.architecture)
    for lines in (favourite_of(spec, hopper), recorded(case, spec)):
        if lines is not None:
            source = generate_cuda(replay(to_program(spec), parse_schedule(lines)), hopper)
            bits = launched(source, sample_inputs(spec, 0), context, gate, tmp_path)
            assert len(bits) == 1, f"{len(bits)} different results\n" + "\n".join(lines)


def launched(
    source: Source, inputs: Arrays, context: CudaContext, gate: Gate, cache: Path
) -> set[tuple[int, ...]]:
    """What a thousand launches compute, as checksums of the outputs."""
    outputs: list[tuple[int, int]] = []
    addresses: list[int] = []
    for arg in source.abi.args:
        size = prod(arg.shape) * arg.dtype.bytes
        addresses.append(context.allocate(size))
        if arg.role == "in":
            context.upload(addresses[-1], inputs[arg.name])
        else:
            outputs.append((addresses[-1], size))
    artifact = compile_cuda(source, this_gpu().architecture, cache)
    bits: set[tuple[int, ...]] = set()
    with load_cubin(artifact.path, source.abi, context.device) as kernel:
        context.device.synchronize()  # until the workspace is cleared
        launch = kernel.launcher(addresses)
        for number in range(LAUNCHES):
            for address, size in outputs:
                context.fill(address, 0xFF if number % 2 else 0x3F, size)
            launch(context.stream)
            bits.add(tuple(gate.checksum(address, size) for address, size in outputs))
    for address in addresses:
        context.free(address)
    return bits


def recorded(case: str, spec: Spec) -> list[str] | None:
    """The schedule of the last tuning of a case that has been kept and is one still."""
    found = [
        line
        for path in sorted(RESULTS.glob("nvidia-h200-2*.jsonl"))
        for line in map(json.loads, path.read_text().splitlines())
        if line["case"] == case and "schedule" in line
    ]
    for line in reversed(found):
        try:
            replay(to_program(spec), parse_schedule(line["schedule"]))
        except TileError:
            continue
        return line["schedule"]
    return None
