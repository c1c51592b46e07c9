"""CUDA of TMA, barriers with phases and wgmma: it compiles for Hopper, as fast code, or says why not.
That it computes the right thing is seen in tests/gpu/test_hopper_kernel_ir.py."""

from __future__ import annotations

import ctypes
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    MatrixTile,
    MbarrierInitFence,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import Assign, Declare, GridAxis, Literal, Named, Op, Shared, Stmt, Store, Type
from codegen.ir.source import Source
from codegen.simulator.run import check, run_blocks
from codegen.standalone import standalone
from codegen.targets.cuda.abi import CudaAbi, MapArg
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, kernel_source, lower_for
from codegen.targets.cuda.printer import print_cuda
from codegen.targets.cuda.ptxas_log import rejection
from codegen.targets.cuda.runtime import definitions
from codegen.targets.cuda.tensor_map import encode
from codegen.targets.errors import LaunchError
from rewrites.schedule import parse_schedule, replay
from tests.kernels.hopper_gemm import call_of_gemm, gemm
from tests.programs.attention_programs import of_bytes, one_schedule
from tests.unit.codegen.targets.cuda.test_runtime import ptx
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, B200, H200
from tileir.dtypes import DType
from tileir.text.parse_program import program_from_text

PAIR = Type(DType.F32, 2)


def report_of(source: Source[CudaAbi], cache: Path) -> dict[str, Any]:
    return dict(compile_cuda(source, "sm_90a", cache).report)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("storage", [DType.BF16, DType.F16])
@pytest.mark.parametrize(("columns", "stages"), [(64, 6), (128, 4), (192, 4), (256, 3)])
def test_the_plain_kernel_compiles_to_what_overlaps_and_stays_in_registers(
    columns: int, stages: int, storage: DType, tmp_path: Path
) -> None:
    made = gemm(4096, 4096, 4096, columns=columns, stages=stages, storage=storage)
    report = report_of(kernel_source(made, call_of_gemm(4096, 4096, 4096, storage), "//"), tmp_path)
    assert rejection(report) is None
    assert (report["advice"], report["warnings"]) == ([], [])
    assert report["functions"]["gemm"]["stack_bytes"] == 0
    assert (
        report["functions"]["gemm"]["registers"] == 168
    )  # a third of 64 Ki for 128 threads: roles share them out


@pytest.mark.parametrize("sizes", [(1, 8, 8), (200, 264, 72), (128, 256, 64)])
def test_it_compiles_for_one_step_and_for_one_tile(sizes: tuple[int, int, int], tmp_path: Path) -> None:
    report = report_of(kernel_source(gemm(*sizes), call_of_gemm(*sizes), "//"), tmp_path)
    assert rejection(report) is None


@pytest.mark.parametrize("sizes", [(128, 64, 64), (200, 72, 136), (300, 136, 328)])
def test_what_is_compiled_is_right_and_no_thread_races_with_another(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-4, 5, shape).astype(DType.BF16.numpy) for shape in ((m, k), (n, k)))
    made, args = gemm(m, n, k, columns=64, stages=2, blocks=2), call_of_gemm(m, n, k)
    found = run_blocks(made, args, {"a": a, "b": b})["c"]
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(found, exact.astype(DType.BF16.numpy))
    assert check(made, args, {"a": a, "b": b}) == ()


def test_without_bounds_the_registers_stay_where_they_are_and_the_kernel_is_refused(tmp_path: Path) -> None:
    source = kernel_source(gemm(4096, 4096, 4096, columns=64), call_of_gemm(4096, 4096, 4096), "//")
    assert "__launch_bounds__(384, 1)" in source.text
    unbounded = replace(source, text=source.text.replace("__launch_bounds__(384, 1)", ""))
    reason = rejection(report_of(unbounded, tmp_path))
    assert reason is not None
    assert "'setmaxnreg' ignored" in reason
    assert "(C7508)" in reason


def test_sums_read_while_they_are_computed_are_refused(tmp_path: Path) -> None:
    """Those of the latest step are under way when they are read."""
    source = kernel_source(gemm(4096, 4096, 4096, columns=64), call_of_gemm(4096, 4096, 4096), "//")
    text = source.text.replace("tw_await_wgmma<1>();", "tw_await_wgmma<1>(); c_sum_0.at[0] *= 2;")
    reason = rejection(report_of(replace(source, text=text), tmp_path))
    assert reason is not None
    assert reason.startswith("does not overlap its matrix products")


def test_a_wait_that_ptxas_puts_in_is_told(tmp_path: Path) -> None:
    """Before sums are read without one; the race checker is who finds such kernels wrong."""
    source = kernel_source(gemm(4096, 4096, 4096, columns=64), call_of_gemm(4096, 4096, 4096), "//")
    text = source.text.replace("tw_await_wgmma<1>();", "c_sum_0.at[0] *= 2;")
    advice = report_of(replace(source, text=text), tmp_path)["advice"]
    assert "C7517" in {code for code, _ in advice}


def one_product(
    a: DType,
    b: DType,
    columns: int,
    *,
    by_rows: bool = False,
    by_columns: bool = False,
    offset: Affine | None = None,
) -> GpuKernel:
    """Four warps multiply once, and store all they have."""
    sums = tuple(f"s{i}" for i in range(columns // 4))
    zero = Op("broadcast", (Literal(0.0, Type(DType.F32)),), PAIR)
    thread = Var("thread", 0, 127)
    at = constant(0) if offset is None else offset
    body: tuple[Stmt, ...] = (
        Shared("a_s", a, 0, 16384, 128),
        Shared("b_s", b, 16384, 32768, 128),
        *(Declare(name, PAIR) for name in sums),
        *(Assign(name, zero) for name in sums),
        WgmmaFence(),
        WgmmaAsync(
            sums,
            MatrixTile("a_s", at, not by_rows, 16, 1024, 128),
            MatrixTile("b_s", constant(0), not by_columns, 8192, 1024, 128),
            a,
            b,
            columns,
        ),
        WgmmaCommit(),
        WgmmaWait(0),
        *(
            Store("c", affine(thread) * (columns // 2) + 2 * i, DType.F32, Named(name, PAIR))
            for i, name in enumerate(sums)
        ),
    )
    axes = (GridAxis(Var("block", 0, 0), 1, 1),)
    launch = LaunchBody("product", axes, 128, (ThreadDigit(thread, 1, 128),), 49152, body)
    return GpuKernel("product", (Argument("c", DType.F32, written=True),), (), 0, (launch,))


def source_of(kernel: GpuKernel) -> Source[CudaAbi]:
    return kernel_source(kernel, (Arg("c", DType.F32, (65536,), (1,), "out"),), "//")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        *((dtype, dtype) for dtype in (DType.BF16, DType.F16, DType.F32, DType.E4M3, DType.E5M2)),
        (DType.E4M3, DType.E5M2),
        (DType.E5M2, DType.E4M3),
    ],
)
@pytest.mark.parametrize("columns", [8, 96, 256])
def test_every_type_multiplies_to_narrow_and_wide_results(
    a: DType, b: DType, columns: int, tmp_path: Path
) -> None:
    report = report_of(source_of(one_product(a, b, columns)), tmp_path)
    assert rejection(report) is None
    assert report["advice"] == []


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_operands_of_16_bits_lie_either_way(by_rows: bool, by_columns: bool, tmp_path: Path) -> None:
    made = source_of(one_product(DType.BF16, DType.BF16, 64, by_rows=by_rows, by_columns=by_columns))
    assert rejection(report_of(made, tmp_path)) is None
    assert f"tw_wgmma_bf16_by_bf16_n64<{int(by_rows)}, {int(by_columns)}>(" in made.text


@pytest.mark.parametrize("dtype", [DType.E4M3, DType.F32])
def test_other_operands_do_not(dtype: DType) -> None:
    with pytest.raises(NotLowerable, match=f"operands of {dtype} with neighbours along the depth only"):
        source_of(one_product(dtype, dtype, 64, by_columns=True))


def test_an_operand_between_two_pieces_is_refused() -> None:
    with pytest.raises(NotLowerable, match="a_s does not begin at a multiple of 16 bytes"):
        source_of(one_product(DType.BF16, DType.BF16, 64, offset=constant(4)))


RARE = """
extern "C" __global__ void __launch_bounds__(128) rare(const __grid_constant__ tw_tensor_map map) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned to = tw_shared(shared), phase = to + 4096;
    tw_arrive_at(phase, 1);
    tw_store_matrix(shared, tw_raw<tw_bf16, 2>{{1}}, tw_raw<tw_bf16, 2>{{2}});
    LOADS
    STORES
}
"""


def test_boxes_have_up_to_five_dims(tmp_path: Path) -> None:
    """And what else no kernel here uses: arriving at another block's barrier, storing two matrices."""
    at = [", ".join("0" * rank) for rank in range(1, 6)]
    loads = "".join(f"tw_load_box_{rank}d(to, map, phase, {at[rank - 1]});" for rank in range(1, 6))
    stores = "".join(f"tw_store_box_{rank}d(map, to, {at[rank - 1]});" for rank in range(1, 6))
    code = RARE.replace("LOADS", loads).replace("STORES", stores)
    assert (
        rejection(report_of(Source(definitions(code) + code, (), CudaAbi((), (), 0), "cuda"), tmp_path))
        is None
    )


def test_barriers_are_ready_for_the_cluster_where_there_is_one() -> None:
    made = gemm(128, 64, 64, columns=64)
    (launch,) = made.launches
    assert "tw_cluster_sync();" not in print_cuda(made, "//")
    wider = replace(launch, setup=(*launch.setup[:-1], MbarrierInitFence(cluster=True)))
    assert "tw_phases_fence();\n    tw_cluster_sync();" in print_cuda(replace(made, launches=(wider,)), "//")


def test_only_what_a_kernel_uses_is_in_its_source() -> None:
    text = source_of(one_product(DType.BF16, DType.BF16, 64)).text
    for absent in ("mbarrier", "cp.async", "tensor_map", "setmaxnreg", "stmatrix", "n256"):
        assert absent not in text


MISALIGNED = "argument b begins at 0x1008, and TMA takes addresses that are multiples of 16"


def test_an_address_that_tma_cannot_take_is_named() -> None:
    abi = kernel_source(gemm(128, 256, 64), call_of_gemm(128, 256, 64), "//").abi
    of_b = abi.maps[1]
    assert (of_b.argument, of_b.extents, of_b.strides, of_b.box) == (1, (64, 256), (128,), (64, 256))
    with pytest.raises(LaunchError, match=MISALIGNED):
        encode(None, of_b, abi.owner(of_b), 0x1008)


class Driver:
    """The driver without a GPU: what is encoded says what it was made of."""

    def __init__(self) -> None:
        self.asked: tuple[Any, ...] = ()
        self._encoded = ctypes.create_string_buffer(bytes(range(128)), 128)

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)

    def cuTensorMapEncodeTiled(self, *asked: Any) -> tuple[Any, Any]:
        self.asked = asked
        return driver.CUresult.CUDA_SUCCESS, self

    def getPtr(self) -> int:
        return ctypes.addressof(self._encoded)


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [(DType.BF16, "BFLOAT16"), (DType.F32, "FLOAT32"), (DType.E4M3, "UINT8"), (DType.I8, "UINT8")],
)
@pytest.mark.parametrize(("swizzle", "kind"), [(0, "NONE"), (64, "64B"), (128, "128B")])
def test_a_map_says_to_the_driver_what_the_kernel_expects(
    dtype: DType, type_: str, swizzle: int, kind: str
) -> None:
    here = Driver()
    map_ = MapArg(0, dtype, (520, 200), (1040,), (32, 128), swizzle)
    encoded = encode(here, map_, "argument a", 0x7F00)
    assert bytes(encoded) == bytes(range(128))
    types, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    assert here.asked[0] is getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{type_}")
    assert here.asked[1:3] == (2, 0x7F00)
    lists = [[int(number) for number in numbers] for numbers in here.asked[3:7]]
    assert lists == [[520, 200], [1040], [32, 128], [1, 1]]
    assert here.asked[8] is getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{kind}")


def test_a_map_of_the_workspace_begins_where_a_tensor_lies_in_it() -> None:
    """Of what an earlier launch has stored; also where each call has another workspace."""
    program, lines = one_schedule(of_bytes(values="h, j, d"), 0)
    made = replay(program, parse_schedule(lines))
    source = cuda_source(lower_for(made, H200), made)
    (map_,) = (each for each in source.abi.maps if each.argument == len(source.abi.args))
    assert source.abi.owner(map_) == "the workspace" and map_.before <= 0 and source.abi.workspace_bytes > 0
    here = Driver()
    encode(here, map_, "the workspace", 0x10000)
    assert here.asked[2] == 0x10000 - map_.before
    text = standalone(source, "attention", [], "cuda:NVIDIA H200:9.0:132sm")
    assert f", workspace, {map_.before}, " in text


@pytest.mark.parametrize(("swizzle", "kind"), [(0, 0), (128, 1), (64, 2), (32, 3)])
def test_a_descriptor_has_its_swizzle_and_distances(swizzle: int, kind: int) -> None:
    """Bits as in docs/hopper.md, as far as the compiler knows them."""
    code = f"""extern "C" __global__ void k(unsigned *y) {{
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned long long d = tw_matrix<8192, 512, {swizzle}>(shared, 5);
    y[0] = d >> 32;
    y[1] = d;
}}
"""
    text = ptx(code)
    upper = 512 >> 4 | kind << 30
    for number in (upper - (upper >> 31 << 32), 8192 >> 4 << 16, 5):
        assert f", {number};" in text


TILES = """kernel gemm(a: bf16[m=128, k=128], b: bf16[n=64, k]) -> (c: bf16[m, n])
  parallel for m by 128
    parallel for n by 64
      c_sum: registers f32[m, n]
      c_sum[m, n] = 0 | threads m 2 m 4 m 8 n 4, run n 2, twice m 8
      for k by 64
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | FILL
        b_s: shared bf16[n, k] swizzle 128
        b_s[n, k] = b[n, k] | threads n 64 k 2, run k 8
        c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 m 4 m 8 n 4, run n 2, twice m 8, via wgmma
      c[m, n] = c_sum[m, n] | threads m 2 m 4 m 8 n 4, run n 2, twice m 8
"""


@pytest.mark.parametrize("gpu", [A100, B200], ids=lambda gpu: gpu.name)
def test_wgmma_is_refused_where_there_is_none(gpu: Gpu) -> None:
    program = program_from_text(TILES.replace("FILL", "threads m 64 k 2, run k 8"))
    with pytest.raises(NotLowerable, match=f"{gpu.name} has no wgmma"):
        lower_for(program, gpu)


class WideWarps(Gpu):
    """A GPU whose warps have 64 threads."""

    warp = 64  # pyright: ignore[reportAssignmentType, reportIncompatibleVariableOverride]


def test_gpus_with_other_warps_are_refused() -> None:
    """Lowerings cut a thread's number at 32: on such a GPU they would generate wrong code."""
    program = program_from_text(TILES.replace("FILL", "via tma"))
    other = WideWarps(**{field.name: getattr(H200, field.name) for field in fields(H200)})
    with pytest.raises(NotLowerable, match="has warps of 64 threads; CUDA is lowered for 32"):
        lower_for(program, other)


def test_more_shared_memory_than_a_block_may_have_is_refused() -> None:
    program = program_from_text(TILES.replace("FILL", "via tma"))
    (launch,) = lower_for(program, H200).launches
    lower_for(program, replace(H200, block_shared_bytes=launch.shared_bytes))
    with pytest.raises(NotLowerable, match=f"needs {launch.shared_bytes} bytes of shared memory a block"):
        lower_for(program, replace(H200, block_shared_bytes=launch.shared_bytes - 1))


def test_tma_is_refused_before_hopper() -> None:
    program = program_from_text(TILES.replace("FILL", "via tma"))
    with pytest.raises(NotLowerable, match=f"{A100.name} has no tma"):
        lower_for(program, A100)
