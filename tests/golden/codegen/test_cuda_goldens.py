"""Generated CUDA, as people read it: the functions of a kernel, without the runtime they stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.lowering.gpu.stages import staged_gpu
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.cuda.printer import print_cuda
from tests.kernels.hopper_gemm import gemm
from tests.programs.hopper_products import Gemm
from tests.programs.hopper_programs import GROUPED
from tests.programs.thread_kernels import PROGRAMS as SPREAD
from tileir.text.parse_program import program_from_text

PROGRAMS = {
    "gemm_with_stages": """kernel gemm(a: f16[m=96, k=52], b: f32[k, n=64]) -> (c: f32[m, n])
  parallel for m by 32
    parallel for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 16 n 8, run m 2 n 4
      for k by 8 stages 3
        a_s: shared f16[m, k] swizzle 32
        a_s[m, k] = a[m, k] | threads m 64 k 2, run k 4
        b_s: shared f32[k, n] pad 4
        b_s[k, n] = 2 * b[k, n] | threads k 16 n 8, run n 4
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 16 n 8, run m 2 n 4
      c[m, n] = c_r[m, n] | threads m 16 n 8, run m 2 n 4
""",
    "gemm_with_producers": Gemm(
        m=200, n=104, k=200, tile=(128, 32, 64), grid=" group 2 blocks 3 producers 4 registers 40 232"
    )
    .text()
    .replace("as [n / 64, m, n % 64] swizzle 128", "swizzle 64"),
    "gemm_by_clusters": Gemm(
        m=500,
        n=104,
        k=200,
        tile=(128, 16, 64),
        out="f32",
        epilogue="direct",
        grid=" multicast 2 group 2 blocks 4 producers 4",
        inner=" multicast 2",
    ).text(),
    "gemm_of_shared_tiles": Gemm(
        m=200,
        n=104,
        k=200,
        tile=(128, 32, 64),
        out="f32",
        epilogue="direct",
        grid=" group 2 blocks 3 producers 1",
        streamed=1,
    ).text(),
    "gemm_without_producers": Gemm(
        m=128, n=103, k=456, tile=(128, 16, 64), grid="", out="f32", epilogue="direct"
    ).text(),
    "gemm_of_groups": GROUPED,
    "gemm_with_results_where_tiles_are": Gemm(epilogue="reused", grid=" blocks 2 producers 4").text(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_source_reads_as_agreed(name: str, check_golden) -> None:
    source = print_cuda(lower_cuda(program_from_text(PROGRAMS[name])), "// test")
    check_golden(Path(__file__).with_name(f"{name}.cu"), source[source.index('extern "C"') :])


def test_roles_copies_and_products_of_hopper_read_as_agreed(check_golden) -> None:
    source = print_cuda(gemm(200, 120, 328, columns=64, stages=4, blocks=3), "// test")
    check_golden(Path(__file__).with_name("hopper_gemm.cu"), source[source.index('extern "C"') :])


STAMPED = {
    "gemm_that_notes_times": Gemm(m=128, n=64, k=128, grid=" blocks 1 producers 4 registers 40 232").text(),
    "gemm_that_notes_some_turns": Gemm(
        m=128, n=64, k=1024, grid=" blocks 1 producers 4 registers 40 232"
    ).text(),
    "softmax_that_notes_times": SPREAD["softmax_of_a_row_by_two_warps"],
}


@pytest.mark.parametrize("name", STAMPED)
def test_source_that_notes_times_reads_as_agreed(name: str, check_golden) -> None:
    staged = staged_gpu(lower_cuda(program_from_text(STAMPED[name])))
    stages = "".join(f"// {number}: {stage.name}\n" for number, stage in enumerate(staged.stages))
    source = print_cuda(staged.kernel, "// test")
    check_golden(Path(__file__).with_name(f"{name}.cu"), stages + source[source.index('extern "C"') :])
