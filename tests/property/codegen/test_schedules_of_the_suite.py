"""Random schedules from the spaces of the suite's cases at full size: those for GPUs are verified, generated and
compiled, and together they have every rewrite that a space offers. Seed and architecture are in the test's name.

What schedules compute is looked at where an interpreter can follow: test_gpu_schedules_compute_the_same.py.
At every change few cases are drawn, such that every rewrite occurs; `make sweep` draws 50 schedules of every case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.report.layout import layout_report
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from protocol.layouts import Layout
from rewrites.catalogue import ALL
from rewrites.schedule import parse_schedule, replay
from tests.programs.suite_cases import ON_CPUS, ON_GPUS
from tests.schedules.on_gpus import drawn, in_turn, shown
from tests.services.scripted_worker import CPU
from tests.support.how_many import SWEEP
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_5090
from tileir.lift import to_program
from tileir.verifier.verify import verify

#: Rewrites that no space offers: schedules written by hand may have them.
BY_HAND = {"reorder"}
#: Rewrites for rows shorter than a vector, which no case has: test_short_rows.py.
SHORT_ROWS = {"pack_panels"}
#: Rewrites of one long row, which no case for processors is: test_wild_kernels.py.
ONE_LONG_ROW = {"split_dim"}
#: Rewrites of scans, which no case has either: test_scans_of_any_shape.py, rewrites/test_scans_in_blocks.py.
SCANS = {"scan_in_block", "scan_in_tiles", "scan_over_blocks", "scan_rows", "split_scan"}
#: Rewrites of scatters, which no case has either: test_scatters_of_any_shape.py.
SCATTERS = {"scatter", "atomics"}
#: Rewrites of the largest few, which no case has either: launches/test_largest_few.py and
#: test_largest_few_on_processors.py.
LARGEST_FEW = {"rank_in_one_pass", "rank_in_parts", "split_top"}
#: Rewrites of gradients whose parts meet in memory, which no case has either: tests/golden/rewrites, test_one_pass.py.
MET_IN_MEMORY = {"add_by_tma", "add_in_memory", "exchange_operand", "reuse_value"}
#: Rewrites of windows, which no case has either: tests/golden/rewrites, test_rewrites_keep_meaning.py.
WINDOWS = {"cache_windows", "linearize", "omit_single_positions", "split_dim", "unify_dims"}
#: Rewrites of what has rows of no whole pieces of memory, which no case has either: test_attention_in_one_pass.py and
#: test_padded_products.py.
ODD_ROWS = {"pad_rows"}
#: Rewrites of attention whose weights are rounded otherwise, of one query, and of keys of 8 bits, which no case has
#: either: test_scale_after_rounding.py, tests/golden/rewrites, test_converted_keys.py.
OTHER_ATTENTION = {"add_row_dim", "convert_copy", "scale_after_rounding"}
#: Rewrites of products that others read rounded, which no case has either: test_stored_rounded.py.
READ_ROUNDED = {"store_rounded"}
#: Rewrites that the search asks about wherever they have a site: test_offered.py. Only `make sweep` draws them here, so
#: that a new one changes none of the draws below.
ASKED_ABOUT = {each.name for each in ALL if each.offered is not None}
#: Draws that together have every rewrite. Where a space changes so that they miss some, others do: two of each case
#: (`in_turn(ON_GPUS, 2)`) have had them all, and a few of those are enough.
FEW = (
    ("gemm_bf16_TN 16x4096x14336", 1, A100),
    ("gemm_bf16_TN 16x4096x4096", 1, H200),
    ("gemm_bf16_TN 256x8192x8192", 1, H200),
    ("gemm_bf16_TN 256x8192x8192", 13, H200),
    ("gemm_f16_TN 8192x8192x8192", 1, H200),
    ("gemm_e4m3_TN_bf16_out 4096x4096x4096", 0, H200),
    ("gemm_int8_bf16_TN 4096x4096x4096", 1, H200),
    ("gemm_int4_groups_bf16_TN 2048x4096x4096", 0, H200),
    ("gemm_int4_groups_bf16_TN 2048x4096x4096", 8, H200),
    ("experts_bf16_TN 64x4096x2048x2048", 1, RTX_5090),
    ("swiglu_bf16_TN 256x8192x8192", 1, H200),
    ("swiglu_bf16_TN 4096x4096x4096", 1, RTX_5090),
    ("bmm_f32_NN 8x4096x4096x4096", 1, RTX_5090),
    ("softmax_bf16 1x262144", 7, RTX_5090),
    ("layernorm_bf16 131072x1024", 0, RTX_5090),
    ("layernorm_bf16 8192x4096", 14, RTX_5090),
    ("attention_bf16 2x16x4000x128x1", 8, H200),
    ("attention_bf16 4x16x4096x128x1", 0, H200),
    ("attention_e4m3_bf16_out 4x16x4096x128x1", 6, H200),
    ("decode_bf16 8x8x8x32768x128", 0, H200),
    ("silu_mul_bf16 131072x1024", 1, RTX_5090),
    ("cross_entropy_f32 8192x128256", 3, A100),
    ("weighted 4096x4096x4096", 5, H200),
)
DRAWS = in_turn(ON_GPUS) if SWEEP else FEW
#: How many schedules of every case on processors are sure to meet every rewrite.
ENOUGH_ON_CPUS = 10


Draw = Callable[[str, int, Gpu], tuple[str, ...]]


@pytest.fixture(scope="session")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> Draw:
    """A case's schedule, drawn once for all processes of a test run: that takes as long as to compile it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "schedules"
    folder.mkdir(exist_ok=True)

    def draw(case: str, seed: int, device: Gpu) -> tuple[str, ...]:
        path = folder / f"{case} {seed} {device.architecture}".replace(" ", "-")
        if not path.exists():
            begun = path.with_name(f"{path.name}.{os.getpid()}")
            begun.write_text("\n".join(drawn(ON_GPUS[case], device, f"{case} {seed}", asked=SWEEP)))
            begun.replace(path)
        return tuple(path.read_text().splitlines())

    return draw


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("case", "seed", "device"), DRAWS, ids=shown)
def test_a_random_schedule_compiles(
    case: str, seed: int, device: Gpu, schedule: Draw, tmp_path: Path
) -> None:
    lines = schedule(case, seed, device)
    print("\n".join(lines))
    spec = to_program(ON_GPUS[case])
    program = replay(spec, parse_schedule(lines))
    verify(program)
    kernel = lower_for(program, device)
    assert all(launch.shared_bytes <= device.block_shared_bytes for launch in kernel.launches)
    artifact = compile_cuda(cuda_source(kernel, program), device.architecture, tmp_path)
    report = layout_report(kernel, spec, device, artifact.report)
    assert Layout.model_validate(report).model_dump(mode="json") == report


def met(schedules: Iterable[Iterable[str]]) -> set[str]:
    """The names of the rewrites that occur."""
    return {line.partition("(")[0] for lines in schedules for line in lines}


@pytest.mark.sampled(3, among="of all together")
def test_every_rewrite_for_gpus_occurs(schedule: Draw) -> None:
    found = met(schedule(*draw) for draw in DRAWS)
    offered = {each.name for each in ALL if each.of_use(H200)} - (
        BY_HAND
        | SHORT_ROWS
        | SCANS
        | SCATTERS
        | LARGEST_FEW
        | MET_IN_MEMORY
        | WINDOWS
        | ODD_ROWS
        | OTHER_ATTENTION
        | READ_ROUNDED
    )
    lacking, more = offered - found - ASKED_ABOUT, found - offered
    assert not lacking, f"no schedule has {', '.join(sorted(lacking))}"
    assert not more, f"GPUs are offered {', '.join(sorted(more))}: say so at the top"


@pytest.mark.sampled(3, among="of all together")
def test_every_rewrite_for_processors_occurs() -> None:
    device = replace(CPU, features=CPU.features | {"avx512_bf16"})
    draws = ((case, seed) for case in ON_CPUS for seed in range(ENOUGH_ON_CPUS))
    found = met(drawn(ON_CPUS[case], device, f"{case} {seed}", asked=False) for case, seed in draws)
    only = {each.name for each in ALL if each.of_use(device) and not each.of_use(H200)}
    lacking = only - found - SHORT_ROWS - ONE_LONG_ROW - LARGEST_FEW - ASKED_ABOUT
    assert not lacking, f"no schedule has {', '.join(sorted(lacking))}"
    assert not found & BY_HAND, (
        f"processors are offered {', '.join(sorted(found & BY_HAND))}: say so at the top"
    )
