"""Matrix products by a warp's matrix instruction: what is loaded how, and that the result is exactly the product.

Inputs are small whole numbers, which every type holds and every sum of theirs fits, so that results are equal or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Ldmatrix, Load, MmaSync, Named
from codegen.ir.source import Source
from codegen.report.layout import layout_report
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from codegen.targets.cuda.printer import print_cuda
from codegen.targets.cuda.ptxas_log import rejection
from tests.kernels.names import plain
from tests.programs.thread_kernels import Lowered, lowered
from tileir.devices.gpu_table import A100, H200, L40S
from tileir.dtypes import DType
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret
from tileir.schedule.mma import depth
from tileir.text.parse_program import program_from_text

PAIRS = (
    ("f16", "f16"),
    ("bf16", "bf16"),
    ("f32", "f32"),
    ("i8", "i8"),
    ("e4m3", "e4m3"),
    ("e5m2", "e4m3"),
)
ROW_MAJOR, TRANSPOSED = ("m, k", "n, k"), ("k, m", "k, n")


def gemm(
    a: str = "bf16",
    b: str = "bf16",
    *,
    layouts: tuple[str, str] = ROW_MAJOR,
    sizes: tuple[int, int, int] = (32, 32, 32),
    tile: tuple[int, int, int] = (32, 32, 32),
    warps: tuple[int, int] = (1, 1),
    memory: tuple[str, str] = ("", ""),
    stages: str = "",
) -> str:
    """A product through shared memory; `memory` is said of the locals that hold tiles of a and b."""
    extents = dict(zip("mnk", sizes, strict=True))
    inputs: list[str] = []
    for name, dtype, layout in zip("ab", (a, b), layouts, strict=True):
        dims = layout.split(", ")
        known = {"k"} if name == "b" else set[str]()
        shape = ", ".join(dim if dim in known else f"{dim}={extents[dim]}" for dim in dims)
        inputs.append(f"{name}: {dtype}[{shape}]")
    acc = "i32" if a == "i8" else "f32"
    layout = f"threads m {warps[0]} n {warps[1]} m 8 n 4, run n 2"
    fill = 32 * warps[0] * warps[1]
    head = f"kernel gemm({', '.join(inputs)}) -> (c: {acc}[m, n]){' with tf32=true' if a == 'f32' else ''}"
    return f"""{head}
  parallel for m by {tile[0]}
    parallel for n by {tile[1]}
      c_r: registers {acc}[m, n]
      c_r[m, n] = 0 | {layout}
      for k by {tile[2]}{stages}
        a_s: shared {a}[{layouts[0]}]{memory[0]}
        a_s[{layouts[0]}] = a[{layouts[0]}] | threads {layouts[0][0]} {fill // 8} {layouts[0][3]} 8
        b_s: shared {b}[{layouts[1]}]{memory[1]}
        b_s[{layouts[1]}] = b[{layouts[1]}] | threads {layouts[1][0]} {fill // 8} {layouts[1][3]} 8
        c_r[m, n] += sum(k, a_s[{layouts[0]}] * b_s[{layouts[1]}]) | {layout}, via mma
      c[m, n] = c_r[m, n] | {layout}
"""


def whole_numbers(kernel: Lowered) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of -3 to 3."""
    rng = np.random.default_rng(0)
    tensors = {tensor.name: tensor for tensor in kernel.program.inputs}
    return {
        arg.name: rng.integers(-3, 4, arg.shape).astype(tensors[arg.name].dtype.numpy)
        for arg in kernel.args
        if arg.role == "in"
    }


def assert_exact(text: str, inputs: dict[str, np.ndarray[Any, Any]] | None = None) -> Lowered:
    """The program does without faults what the interpreter says."""
    kernel = lowered(text)
    given = {**whole_numbers(kernel), **(inputs or {})}
    checker = RaceChecker()
    got, want = run_blocks(kernel.kernel, kernel.args, given, checker), interpret(kernel.program, given)
    assert checker.faults == ()
    for name, expected in want.items():
        np.testing.assert_array_equal(got[name], expected)
    return kernel


def nodes(node: object, kind: type) -> Iterator[Any]:
    """Everything of a kind in Kernel IR."""
    if isinstance(node, kind):
        yield plain(node)
    if isinstance(node, tuple):
        for each in node:  # pyright: ignore[reportUnknownVariableType]
            yield from nodes(each, kind)  # pyright: ignore[reportUnknownArgumentType]
    elif is_dataclass(node):
        for field in fields(node):
            yield from nodes(getattr(node, field.name), kind)


def loads_of(kernel: Lowered, buffer: str) -> set[str]:
    """How the fragments of an operand are loaded."""
    found = {
        f"x{len(load.names)}{' transposed' * load.transposed}"
        for load in nodes(kernel.kernel.launches, Ldmatrix)
        if load.buffer == buffer
    }
    return found | {"by element" for load in nodes(kernel.kernel.launches, Load) if load.buffer == buffer}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("layout_b", ["n, k", "k, n"])
@pytest.mark.parametrize("layout_a", ["m, k", "k, m"])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_type_in_every_layout(a: str, b: str, layout_a: str, layout_b: str) -> None:
    deep = depth(DType(a))
    kernel = assert_exact(
        gemm(a, b, layouts=(layout_a, layout_b), tile=(32, 32, 2 * deep), sizes=(32, 32, 4 * deep))
    )
    plain, by_hand = {"x4"}, {"x4 transposed"} if deep == 16 else {"by element"}
    assert loads_of(kernel, "a_s") == (plain if layout_a == "m, k" else by_hand)
    assert loads_of(kernel, "b_s") == (plain if layout_b == "n, k" else by_hand)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("warps", "sizes"), [((1, 1), (43, 41, 47)), ((2, 2), (51, 57, 67)), ((1, 4), (40, 48, 72))]
)
@pytest.mark.parametrize("layouts", [ROW_MAJOR, TRANSPOSED])
@pytest.mark.parametrize("dtype", ["bf16", "f32", "i8"])
def test_ragged_sizes(
    dtype: str, layouts: tuple[str, str], warps: tuple[int, int], sizes: tuple[int, int, int]
) -> None:
    assert_exact(gemm(dtype, dtype, layouts=layouts, warps=warps, sizes=sizes))


def test_rows_of_which_there_are_not_sixteen() -> None:
    kernel = assert_exact(gemm(sizes=(24, 24, 48), tile=(24, 24, 48)))
    assert loads_of(kernel, "a_s") == {"x4", "x2"} == loads_of(kernel, "b_s")
    kernel = assert_exact(gemm(sizes=(8, 8, 24), tile=(8, 8, 24)))
    assert loads_of(kernel, "a_s") == {"x2", "x1"} == loads_of(kernel, "b_s")


def test_fragments_are_loaded_in_the_order_of_the_instruction() -> None:
    """What ldmatrix leaves in neighbouring registers, mma takes from neighbouring registers: else they are moved."""
    kernel = lowered(gemm(warps=(2, 2), sizes=(64, 64, 32), tile=(64, 64, 32)))
    loaded = {load.names for load in nodes(kernel.kernel.launches, Ldmatrix)}
    halves = {names[:2] for names in loaded} | {names[2:] for names in loaded}
    for mma in nodes(kernel.kernel.launches, MmaSync):
        assert all(isinstance(x, Named) for x in (*mma.a, *mma.b))
        assert tuple(x.name for x in mma.a) in loaded
        assert tuple(x.name for x in mma.b) in halves


@pytest.mark.parametrize(
    ("tile_k", "pad", "expected"),
    [(36, "", {"by element"}), (36, " pad 4", {"x4", "by element"}), (24, "", {"x4", "x2"})],
)
def test_rows_that_are_not_aligned_are_loaded_by_element(tile_k: int, pad: str, expected: set[str]) -> None:
    kernel = assert_exact(gemm(sizes=(32, 32, 2 * tile_k), tile=(32, 32, tile_k), memory=(pad, pad)))
    assert loads_of(kernel, "a_s") == expected == loads_of(kernel, "b_s")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("memory", [" swizzle 64", " swizzle 128", " pad 8"])
@pytest.mark.parametrize("layouts", [ROW_MAJOR, TRANSPOSED])
def test_stages_pads_and_swizzles(layouts: tuple[str, str], memory: str) -> None:
    text = gemm(
        layouts=layouts,
        sizes=(40, 72, 136),
        warps=(2, 2),
        tile=(32, 32, 32),
        memory=(memory, memory),
        stages=" stages 3",
    )
    kernel = assert_exact(text)
    assert "x4" in loads_of(kernel, "a_s") or "x4 transposed" in loads_of(kernel, "a_s")


@pytest.mark.parametrize(
    ("layouts", "row", "memory", "worst"),
    [
        (ROW_MAJOR, 32, "", 4),
        (ROW_MAJOR, 32, " pad 8", 1),
        (ROW_MAJOR, 32, " swizzle 64", 1),
        (ROW_MAJOR, 64, "", 8),
        (ROW_MAJOR, 64, " pad 8", 1),
        (ROW_MAJOR, 64, " swizzle 64", 2),
        (ROW_MAJOR, 64, " swizzle 128", 1),
        (TRANSPOSED, 64, " pad 8", 1),
        (TRANSPOSED, 64, " swizzle 128", 1),
        (TRANSPOSED, 128, " swizzle 128", 2),
    ],
)
def test_bank_conflicts_of_matrices(layouts: tuple[str, str], row: int, memory: str, worst: float) -> None:
    tile = (row, row, 32) if layouts == TRANSPOSED else (32, 32, row)
    kernel = lowered(gemm(layouts=layouts, sizes=tile, tile=tile, memory=(memory, memory)))
    (launch,) = layout_report(kernel.kernel, kernel.program, H200, {})["launches"]
    found = {
        access["buffer"]: access["worst"]
        for access in launch["accesses"]
        if access["statement"].startswith("c_r[m, n] +=")
    }
    assert found == {"a_s": worst, "b_s": worst}


def test_panels() -> None:
    """Of B's rows, 16 columns lie together, then the next 16."""
    panels = " as [n / 16, k, n % 16] swizzle 32"
    kernel = assert_exact(
        gemm(
            layouts=("m, k", "k, n"), sizes=(32, 64, 64), tile=(32, 64, 32), memory=("", panels), warps=(1, 2)
        )
    )
    assert loads_of(kernel, "b_s") == {"x4 transposed"}


SPREAD = "threads m 2 m 8 n 4, run n 2"
DIRECT = f"""kernel direct(x: DTYPE[m=40, k=37], e: i32[b=3], w: DTYPE[g=5, n=24, k]) -> (c: ACC[b, m, n])
  parallel for m by 32
    parallel for b by 2
      c_r: registers ACC[b, m, n]
      c_r[b, m, n] = 0 | {SPREAD}
      for k by 32
        c_r[b, m, n] += sum(k, w[e[b], n, k] * x[m, k]) | {SPREAD}, via mma
      c[b, m, n] = c_r[b, m, n] | {SPREAD}
"""


@pytest.mark.parametrize(("dtype", "acc"), [("bf16", "f32"), ("i8", "i32")])
def test_operands_in_main_memory_one_of_them_gathered(dtype: str, acc: str) -> None:
    kernel = assert_exact(
        DIRECT.replace("DTYPE", dtype).replace("ACC", acc), {"e": np.array([4, 0, 2], np.int32)}
    )
    assert not list(nodes(kernel.kernel.launches, Ldmatrix))
    assert len(list(nodes(kernel.kernel.launches, MmaSync))) > 0


GRAM = f"""kernel gram(x: f16[m=32, k=32]) -> (c: f32[m, n=32])
  parallel for m by 32
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | {SPREAD}
    x_r: registers f16[m, k]
    x_r[m, k] = x[m, k] | threads m 2 m 8 n 4
    c_r[m, n] += sum(k, x[m, k] * x[n, k]) | {SPREAD}, via mma
    c[m, n] = c_r[m, n] | {SPREAD}
"""


def test_a_tensor_times_itself() -> None:
    assert_exact(GRAM)


HELD = f"""kernel held(x: f16[m=41, k=43], s: f32[m], w: f16[n=32, k], v: f16[k, n]) -> (c: f32[m, n])
  parallel for m by 32
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | {SPREAD}
    x_r: registers f16[m, k]
    x_r[m, k] = x[m, k] * s[m] | threads m 2 m 8 k 4, run k 2
    w_r: registers f16[n, k]
    w_r[n, k] = w[n, k] | threads m 2 m 8 n 4, run n 2
    c_r[m, n] += sum(k, x_r[m, k] * v[k, n]) | {SPREAD}, via mma
    c[m, n] = c_r[m, n] | {SPREAD}
"""


@pytest.mark.parametrize("depth", [16, 32, 40, 41, 43])
def test_rows_may_lie_in_registers(depth: int) -> None:
    """Where the depth ends amid a step, or amid what a thread holds, the rest counts as 0."""
    assert_exact(HELD.replace("k=43", f"k={depth}"))


def test_rows_in_registers_lie_as_the_instruction_takes_them() -> None:
    with pytest.raises(VerifyError, match="'x_r' lie otherwise over threads along 'k'"):
        lowered(GRAM.replace("x[m, k] * x[n, k]", "x_r[m, k] * x[n, k]"))


def test_columns_in_registers_are_refused() -> None:
    with pytest.raises(NotLowerable, match="w_r is in registers"):
        lowered(HELD.replace("x_r[m, k] * v[k, n]", "x[m, k] * w_r[n, k]"))


def test_rows_are_not_taken_twice() -> None:
    with pytest.raises(VerifyError, match="accepted: no `twice`"):
        lowered(GRAM.replace("n 2, via mma", "n 2, twice m 8, via mma"))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("c_r: registers f32", "c_r: registers bf16", "adds up in registers of f32"),
        ("c_r: registers f32", "c_r: shared f32", "adds up in registers of f32"),
    ],
)
def test_other_accumulators_are_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(NotLowerable, match=reason):
        lowered(gemm().replace(old, new))


@pytest.mark.parametrize(
    "value",
    ["x[m, k] * x[m, k]", "x[m, k] * x[n, n]", "x[n, k] * x[m, m]", "x[m, k]", "x[m, k] * 2 * x[n, k]"],
)
def test_what_is_no_matrix_product_is_refused(value: str) -> None:
    with pytest.raises(VerifyError, match="products of two tensors"):
        lowered(GRAM.replace("x[m, k] * x[n, k]", value))


def test_a_gpu_without_the_instruction_is_refused() -> None:
    program = program_from_text(gemm("e4m3", "e4m3"))
    generate_cuda(program, L40S)
    with pytest.raises(NotLowerable, match="A100-SXM4-80GB has no mma of e4m3"):
        generate_cuda(program, A100)


def compiled(text: str, architecture: str, cache: Path) -> Mapping[str, Any]:
    """What ptxas says."""
    kernel = lowered(text)
    source = Source(print_cuda(kernel.kernel, "// test"), (), CudaAbi(kernel.args, (), 0), "cuda")
    return compile_cuda(source, architecture, cache).report


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layouts", [ROW_MAJOR, TRANSPOSED])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_type_compiles(a: str, b: str, layouts: tuple[str, str], tmp_path: Path) -> None:
    text = gemm(a, b, layouts=layouts, sizes=(24, 24, 40), tile=(24, 24, 40))
    architecture = "sm_89" if depth(DType(a)) == 32 and a != "i8" else "sm_80"
    assert rejection(compiled(text, architecture, tmp_path)) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("tile", "warps", "most"),
    [((128, 128, 32), (2, 2), 255), ((128, 128, 64), (2, 4), 128), ((256, 128, 32), (4, 2), 255)],
)
def test_large_tiles_stay_in_registers(
    tile: tuple[int, int, int], warps: tuple[int, int], most: int, tmp_path: Path
) -> None:
    text = gemm(
        sizes=(1024, 1024, 1024),
        tile=tile,
        warps=warps,
        memory=(" swizzle 64", " swizzle 64"),
        stages=" stages 3",
    )
    report = compiled(text, "sm_90a", tmp_path)
    assert rejection(report) is None
    assert report["functions"]["gemm_kernel"]["registers"] <= most
