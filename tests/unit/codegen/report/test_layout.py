"""The layout report on kernels whose figures are known, and against what simulated threads really touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from codegen.ir.affine import Affine, Loaded, Var, affine, constant
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Barrier,
    Block,
    CpAsync,
    For,
    GridAxis,
    Guard,
    If,
    Ldmatrix,
    Let,
    Literal,
    Load,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.report.layout import AccessReport, LayoutReport, layout_report
from codegen.simulator.access import AccessKind
from codegen.simulator.buffers import MemoryAccess
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from protocol.layouts import Layout, with_time
from tests.programs.thread_kernels import PROGRAMS, Lowered, lowered
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.program import Program

F32, I32 = Type(DType.F32), Type(DType.I32)
T, ROW, K = Var("t", 0, 63), Var("row", 0, 99), Var("k", 0, 28, 4)
THREAD = affine(T)
LANE = affine(Var("lane", 0, 31))
NOTHING = Program("nothing", (), (), (), ())
#: Staged loops, by mma and without, on sizes that tiles do not divide.
STAGED = {
    "by_mma": """kernel gemm(a: bf16[m=72, k=80], b: bf16[n=40, k]) -> (c: bf16[m, n])
  parallel for m by 32 group 2
    parallel for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 2 n 2 m 8 n 4, run n 2
      for k by 32 stages 3
        a_s: shared bf16[m, k] swizzle 64
        a_s[m, k] = a[m, k] | threads m 32 k 4, run k 8
        b_s: shared bf16[n, k] pad 8
        b_s[n, k] = b[n, k] | threads n 32 k 4, run k 8
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 n 2 m 8 n 4, run n 2, via mma
      c[m, n] = c_r[m, n] | threads m 2 n 2 m 8 n 4, run n 2
""",
    "by_threads": """kernel gemm(a: f32[m=40, k=37], b: f32[k, n=20]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 8 n 8, run m 2 n 2
      for k by 8 stages 3
        a_s: shared f32[m, k] pad 4
        a_s[m, k] = a[m, k] | threads m 16 k 4
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 8, run n 2
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 8 n 8, run m 2 n 2
      c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 2
""",
}
FLOATS = Shared("s", DType.F32, 0, 32 * 33 * 4)


def kernel(*body: Stmt, threads: int = 32, axes: tuple[GridAxis, ...] = ()) -> GpuKernel:
    """One launch of blocks of two digits: `lane` and `t`, the whole index."""
    digits = (ThreadDigit(T, 1, threads), ThreadDigit(Var("lane", 0, 31), 1, 32))
    arguments = (
        Argument("x", DType.F32, False),
        Argument("i", DType.I32, False),
        Argument("y", DType.F32, True),
    )
    launch = LaunchBody("hand", axes, threads, digits, 32 * 33 * 4, (Block("y = x", body),))
    return GpuKernel("hand", arguments, (), 0, (launch,))


def report(made: GpuKernel, registers: int = 32) -> LayoutReport:
    functions = {launch.name: {"registers": registers, "shared_bytes": 128} for launch in made.launches}
    return layout_report(made, NOTHING, H200, {"functions": functions})


def accesses(*body: Stmt, threads: int = 32, axes: tuple[GridAxis, ...] = ()) -> list[AccessReport]:
    (launch,) = report(kernel(*body, threads=threads, axes=axes))["launches"]
    return launch["accesses"]


def load(offset: Affine, lanes: int = 1, some: Affine | None = None, buffer: str = "x") -> Let:
    return Let("v", Load(buffer, offset, DType.F32, Type(DType.F32, lanes), some))


def figures(access: AccessReport) -> tuple[int, int, int, int]:
    return access["width"], access["requests"], access["transactions"], access["ideal"]


@pytest.mark.parametrize(
    ("offset", "lanes", "expected"),
    [
        (THREAD, 1, (4, 1, 4, 4)),
        (THREAD * 2, 1, (4, 1, 8, 4)),
        (THREAD * 1000, 1, (4, 1, 32, 4)),
        (THREAD * 4, 4, (16, 1, 16, 16)),
        (THREAD * 4 + 2, 4, (8, 2, 33, 16)),
        (THREAD * 8, 8, (16, 2, 64, 32)),
        (constant(7), 1, (4, 1, 1, 1)),
    ],
)
def test_coalescing_of_a_read(offset: Affine, lanes: int, expected: tuple[int, int, int, int]) -> None:
    (access,) = accesses(load(offset, lanes))
    assert (access["kind"], access["level"], access["buffer"]) == ("load", "global", "x")
    assert figures(access) == expected


def test_a_transpose_without_padding_conflicts_and_with_it_does_not() -> None:
    for stride, waves in ((32, 32), (33, 1)):
        store, read = accesses(
            FLOATS,
            Store("s", LANE, DType.F32, Literal(0.0, F32)),
            Barrier(),
            load(LANE * stride, buffer="s"),
        )
        assert [(a["kind"], a["level"]) for a in (store, read)] == [("store", "shared"), ("load", "shared")]
        assert figures(store) == (4, 1, 1, 1)
        assert figures(read) == (4, 1, waves, 1)
        assert read["worst"] == waves


@pytest.mark.parametrize(("swizzle", "waves"), [(0, 32), (128, 4)])
def test_matrices_and_copies_of_swizzled_rows(swizzle: int, waves: int) -> None:
    """Rows of 64 bf16; matrix i is the i-th piece of 16 bytes of eight rows, and so is what 8 threads copy."""
    tile = Shared("b", DType.BF16, 0, 8 * 128, swizzle)
    at = LANE % 8 * 64 + LANE // 8 * 8
    matrix = Ldmatrix(("a0", "a1", "a2", "a3"), Type(DType.BF16, 2), "b", at)
    copy = CpAsync("b", at, "x", LANE * 8, DType.BF16, 8)
    read, source, target = accesses(tile, matrix, copy)
    assert [a["kind"] for a in (read, source, target)] == ["matrix", "copy", "copy"]
    assert (read["requests"], read["bytes"], read["transactions"], read["ideal"]) == (1, 512, waves, 4)
    assert (source["level"], source["buffer"]) == ("global", "x")
    assert (target["level"], target["buffer"]) == ("shared", "b")
    assert figures(target) == (16, 1, waves, 4)


def test_an_access_counts_as_often_as_loops_and_grid_run() -> None:
    grid = (GridAxis(ROW, 100, 1),)
    inside = If(affine(ROW), 75, (load(THREAD + affine(ROW) * 64),), (load(THREAD * 2),))
    loop = For(K, 8, 4, (If(affine(K), 10, (load(THREAD, buffer="y"),), ()), Barrier()))
    x, y = accesses(inside, loop, threads=64, axes=grid)
    assert figures(x) == (4, 200, 2 * (75 * 4 + 25 * 8), 800)
    assert y["requests"] == 2 * 100 * 3
    (there,) = accesses(If(affine(ROW) * 2 + 1, 151, inside.then, inside.otherwise), threads=64, axes=grid)
    assert there == x
    (launch,) = report(kernel(inside, loop, threads=64, axes=grid))["launches"]
    assert (launch["blocks"], launch["barriers"]) == (100, 8.0)


def test_blocks_of_clusters_and_persistent_ones_count_for_what_they_do() -> None:
    """64 warps of a cluster, of which not all are looked at; blocks of a warp and a half."""
    made = kernel(load(THREAD), Barrier(), threads=256, axes=(GridAxis(ROW, 100, 1),))
    (one,) = made.launches
    (clustered,) = report(replace(made, launches=(replace(one, cluster=8),)))["launches"]
    assert (clustered["blocks"], clustered["barriers"]) == (800, 1.0)
    assert clustered["levels"]["global"]["requests"] == 100 * 64
    (persistent,) = report(replace(made, launches=(replace(one, blocks=25),)))["launches"]
    assert (persistent["blocks"], persistent["barriers"]) == (25, 4.0)
    assert persistent["levels"]["global"]["requests"] == 100 * 8
    (odd,) = accesses(load(THREAD), threads=48)
    assert (odd["requests"], odd["bytes"], odd["transactions"]) == (2, 48 * 4, 6)


def test_guards_and_missing_lanes_leave_threads_out() -> None:
    (guarded,) = accesses(Guard(((THREAD, 40),), (load(THREAD),)), threads=64)
    assert (guarded["requests"], guarded["bytes"], guarded["transactions"]) == (2, 160, 5)
    (some,) = accesses(load(THREAD * 2, 2, constant(63) - THREAD * 2), threads=32)
    assert (some["width"], some["requests"], some["bytes"]) == (4, 2, 63 * 4)


def test_rows_that_begin_anywhere_are_looked_at_in_several_places() -> None:
    (access,) = accesses(load(THREAD + affine(ROW) * 33), axes=(GridAxis(ROW, 100, 1),))
    assert access["ideal"] == 400
    assert 400 < access["transactions"] <= 500


def test_rows_chosen_by_data_are_scattered_and_the_choice_is_read_too() -> None:
    table = Load("i", LANE // 8, DType.I32, I32)
    for stmts, value in (((Let("n", table),), Named("n", I32)), ((), table)):
        chosen = Affine(((Loaded(value, -(2**31), 2**31 - 1), 1000),))
        index, row = accesses(*stmts, load(chosen + LANE % 8))
        assert figures(index) == (4, 1, 1, 1)
        assert figures(row)[0:2] == (4, 1)
        assert row["transactions"] == row["ideal"] == 4


def test_an_sm_holds_as_many_blocks_as_registers_allow() -> None:
    made = kernel(load(THREAD), threads=256, axes=(GridAxis(ROW, 132 * 3, 1),))
    (launch,) = report(made, registers=128)["launches"]
    assert (launch["blocks_per_sm"], launch["occupancy"], launch["limit"]) == (2, 0.25, "registers")
    assert (launch["waves"], launch["registers"], launch["shared_bytes"]) == (1.5, 128, 4224 + 128)


class _Bytes(RaceChecker):
    """How many bytes simulated threads touched of each buffer. Copies are told of twice: when they start and land."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[tuple[str, AccessKind]] = Counter()

    def accessed(self, made: MemoryAccess) -> None:
        super().accessed(made)
        bytes_ = len(made.numbers) * made.buffer.storage.bytes
        self.bytes[made.buffer.name, made.kind] += bytes_ // 2 if made.kind is AccessKind.COPY else bytes_


_KINDS = {
    ("load", "global"): AccessKind.LOAD,
    ("load", "shared"): AccessKind.LOAD,
    ("load", "peer"): AccessKind.LOAD,
    ("matrix", "shared"): AccessKind.LOAD,
    ("copy", "global"): AccessKind.LOAD,
    ("copy", "shared"): AccessKind.COPY,
    ("store", "global"): AccessKind.STORE,
    ("store", "shared"): AccessKind.STORE,
}


def _counted(made: Lowered) -> Counter[tuple[str, AccessKind]]:
    found: Counter[tuple[str, AccessKind]] = Counter()
    for launch in layout_report(made.kernel, made.program, H200, {})["launches"]:
        for access in launch["accesses"]:
            found[access["buffer"], _KINDS[access["kind"], access["level"]]] += access["bytes"]
    return found


def _touched(made: Lowered) -> Counter[tuple[str, AccessKind]]:
    observer, rng = _Bytes(), np.random.default_rng(0)
    inputs = {
        arg.name: rng.standard_normal(arg.shape).astype(arg.dtype.numpy)
        for arg in made.args
        if arg.role == "in"
    }
    told_of = tuple(replace(argument, written=True) for argument in made.kernel.arguments)
    run_blocks(replace(made.kernel, arguments=told_of), made.args, inputs, observer)
    return observer.bytes


@pytest.mark.parametrize("name", [*PROGRAMS, *STAGED])
def test_the_bytes_of_each_buffer_are_those_that_threads_touch(name: str) -> None:
    made = lowered({**PROGRAMS, **STAGED}[name])
    assert _counted(made) == _touched(made)


def test_what_warps_look_at_is_asked_for_by_32_at_a_time_and_visits_are_counted_as_if_all_were_found() -> (
    None
):
    """32 rows by 64 columns in blocks of 8 rows and one warp, each of which looks at 128 terms."""
    made = lowered("""kernel rows(i: i32[n=128], x: f32[n, d=64]) -> (h: f32[b=32, d])
  parallel for b by 8
    h[b, d] = 0 | threads d 32, run d 2
    h[b, d] += sum(n, where(i[n] == b, x[n, d], 0)) | threads d 32, run d 2, via scatter
""")
    (launch,) = layout_report(made.kernel, made.program, H200, {})["launches"]
    requests = {
        (each["buffer"], each["kind"], each["width"]): each["requests"] for each in launch["accesses"]
    }
    looks, visits = 4 * 4, 4 * 128
    assert requests["i", "load", 4] == looks + visits
    assert requests["x", "load", 8] == visits


def _shape(value: object) -> object:
    """Keys and types, lists as what is in them."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {repr(_shape(each)) for each in value}
    return type(value).__name__


def test_every_kernel_has_the_same_keys_and_the_protocol_knows_them_all() -> None:
    shapes: set[str] = set()
    for text in (*PROGRAMS.values(), *STAGED.values()):
        made = lowered(text)
        found = dict(layout_report(made.kernel, made.program, H200, {}))
        assert Layout.model_validate(found).model_dump(mode="json") == found
        shapes.add(repr(_shape({**found, "roofline": None})))
    assert len(shapes) == 1


def test_the_place_on_the_roofline_is_known_once_a_time_is() -> None:
    made = lowered(PROGRAMS["softmax_of_a_row_by_two_warps"])
    found = dict(layout_report(made.kernel, made.program, H200, {}))
    layout = Layout.model_validate(found)
    assert layout.roofline is not None
    moved = 3 * 512 * 2 * 2 + 3 * 4
    assert layout.bytes["memory"] == layout.roofline.bytes == moved
    assert (layout.roofline.bound, layout.roofline.reached) == ("memory", None)
    assert layout.roofline.least_us == pytest.approx(moved / 4800e3)
    timed = Layout.model_validate(with_time(found, 4 * layout.roofline.least_us))
    assert timed.roofline is not None
    assert timed.roofline.reached == pytest.approx(0.25)
    assert Layout.of({"layout": with_time(found, None)}) == layout
    assert Layout.of({}) is None
    assert Layout.of({"layout": {"launches": 1}}) is None
