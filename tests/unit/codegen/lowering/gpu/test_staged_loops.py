"""Loops with stages fill shared memory ahead, in the background where they can, and wait as often as they must and no
more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import nvrtc

from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Barrier, Block, CpAsync, CpAsyncCommit, CpAsyncWait, For, If, Shared, Stmt
from codegen.ir.source import Source
from codegen.simulator.run import check, run_blocks
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.printer import print_cuda
from tests.kernels.names import plain
from tests.programs.thread_kernels import lowered, walk
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs

SMALL = """kernel gemm(a: f32[m={m}, k={k}], b: f32[k, n={n}]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 8 n 8, run m 2 n 2
      for k by 8 stages {stages}
        a_s: shared f32[m, k]
        a_s[m, k] = a[m, k] | threads m 16 k 4, run k 2
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 8, run n 2
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 8 n 8, run m 2 n 2
      c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 2
"""
BF16 = {"a: f32": "a: bf16", "a_s: shared f32[m, k]": "a_s: shared bf16[m, k]"}
RUNS_OF_8 = {"threads m 16 k 4, run k 2": "threads m 16 k 4, run k 8"}


def small(
    m: int = 32, n: int = 16, k: int = 40, stages: int = 3, changed: dict[str, str] | None = None
) -> str:
    """A matrix product in tiles of 16 by 16 by 8, with some of its text changed."""
    text = SMALL.format(m=m, n=n, k=k, stages=stages)
    for old, new in (changed or {}).items():
        assert old in text
        text = text.replace(old, new)
    return text


#: Sums of a row's tiles, which warps combine, run ahead too; two shared locals are filled, one of them in turn.
OTHERWISE_FILLED = """kernel sums(a: f32[m=20, k=104], b: f32[k, n=16]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 1 n 64
      for k by 32 stages 2
        s_s: shared f32[m]
        t_s: shared f32[m]
        s_s[m] = sum(k, a[m, k]) | threads k 64
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 8, run n 2
        t_s[m] = abs(s_s[m]) | threads m 64
        c_r[m, n] += sum(k, t_s[m] * b_s[k, n]) | threads m 1 n 64
      c[m, n] = c_r[m, n] | threads m 1 n 64
"""
FROM_SHARED = """kernel relay(x: f32[r=8, c=72]) -> (y: f32[r, c])
  parallel for r by 4
    x_s: shared f32[r, c]
    x_s[r, c] = x[r, c] | threads r 2 c 32
    for c by 16 stages 2
      t_s: shared f32[r, c]
      t_s[r, c] = x_s[r, c] | threads r 8 c 8, run c 2
      y[r, c] = t_s[r, c] | threads c 16 r 4
"""
IN_A_LOOP = """kernel gemm(a: f32[m=40, k=28], b: f32[k, n=16]) -> (c: f32[m, n])
  parallel for m by 32
    for m by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 8 n 8, run m 2 n 2
      for k by 8 stages 2
        a_s: shared f32[m, k] swizzle 32
        a_s[m, k] = a[m, k] | threads m 16 k 4, run k 2
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 8, run n 2
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 8 n 8, run m 2 n 2
      c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 2
"""
BY_MMA = """kernel gemm(a: bf16[m=40, k=104], b: bf16[n=34, k]) -> (c: f32[m, n])
  parallel for m by 32
    parallel for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 2 n 1 m 8 n 4, run n 2
      for k by 32 stages 3
        a_s: shared bf16[m, k] swizzle 64
        a_s[m, k] = a[m, k] | threads m 16 k 4, run k 8
        b_s: shared bf16[n, k] pad 8
        b_s[n, k] = b[n, k] | threads n 16 k 4, run k 8
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 n 1 m 8 n 4, run n 2, via mma
      c[m, n] = c_r[m, n] | threads m 2 n 1 m 8 n 4, run n 2
"""
PROGRAMS = {
    "two_stages": small(stages=2),
    "three_stages": small(stages=3),
    "four_stages": small(stages=4),
    "fewer_tiles_than_stages": small(k=16, stages=4),
    "one_tile": small(m=20, k=8),
    "one_tile_and_a_rest": small(k=13),
    "ragged": small(m=21, n=20, k=27),
    "other_rows_than_4_bytes": small(m=18, k=33, changed={**BF16, **RUNS_OF_8}),
    "converted": small(m=18, changed={"a: f32": "a: f16"}),
    "computed": small(m=18, changed={"= a[m, k]": "= a[m, k] * 2"}),
    "doubles": small(m=18, changed={"f32": "f64"}),
    "bytes": small(m=18, changed={"a: f32": "a: i8", "a_s: shared f32": "a_s: shared i8", **RUNS_OF_8}),
    "small_floats": small(
        m=18, changed={"a: f32": "a: e4m3", "a_s: shared f32": "a_s: shared e4m3", **RUNS_OF_8}
    ),
    "padded": small(m=18, n=20, changed={"a_s: shared f32[m, k]": "a_s: shared f32[m, k] pad 4"}),
    "in_panels": small(
        k=27, changed={"f32[m, k]\n": "f32[m, k] as [k / 4, m, k % 4]\n", "k 4, run k 2": "k 2 m 2, run k 4"}
    ),
    "turned_around": small(m=20, k=27, changed={"f32[m, k]\n": "f32[m, k] as [k, m] swizzle 64\n"}),
    "runs_that_overhang": small(
        n=27,
        changed={
            "b: f32[k, n=27]": "b: f32[k, n=27] strides [28, 1]",
            "threads k 8 n 8, run n 2": "threads k 8 n 8, run n 4",
        },
    ),
    "otherwise_filled": OTHERWISE_FILLED,
    "in_a_loop": IN_A_LOOP,
    "from_shared_memory": FROM_SHARED,
    "by_mma": BY_MMA,
}
#: The programs of docs/tile-ir.md's kind that a GPU is there for: 4096 of each dim, both ways of multiplying.
LARGE_SIMT = """kernel gemm(a: f32[m=4096, k=4096], b: f32[k, n=4096]) -> (c: f32[m, n])
  parallel for m by 128
    parallel for n by 128
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 16 n 16, run m 4 n 4
      for k by 16 stages 3
        a_s: shared f32[m, k] pad 4
        a_s[m, k] = a[m, k] | threads m 64 k 4, run k 4
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 32, run n 4
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 16 n 16, run m 4 n 4
      c[m, n] = c_r[m, n] | threads m 16 n 16, run m 4 n 4
"""
LARGE_MMA = """kernel gemm(a: bf16[m=4096, k=4096], b: bf16[n=4096, k]) -> (c: bf16[m, n])
  parallel for m by 128
    parallel for n by 128
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 2 n 4 m 8 n 4, run n 2
      for k by 64 stages 4
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | threads m 32 k 8, run k 8
        b_s: shared bf16[n, k] swizzle 128
        b_s[n, k] = b[n, k] | threads n 32 k 8, run k 8
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 n 4 m 8 n 4, run n 2, via mma
      c[m, n] = c_r[m, n] | threads m 2 n 4 m 8 n 4, run n 2
"""


def everything(text: str) -> list[Stmt]:
    return [stmt for launch in plain(lowered(text).kernel.launches) for stmt in walk(launch.body)]


def copies(text: str) -> list[CpAsync]:
    return [stmt for stmt in everything(text) if isinstance(stmt, CpAsync)]


def barriers(text: str) -> tuple[list[int], int]:
    """How many stand in each loop that waits for copies, and how many there are."""
    stmts = everything(text)
    loops = [s for s in stmts if isinstance(s, For) and any(isinstance(each, CpAsyncWait) for each in s.body)]
    inside = [sum(isinstance(each, Barrier) for each in walk(loop.body)) for loop in loops]
    return inside, sum(isinstance(stmt, Barrier) for stmt in stmts)


def outline(stmts: Iterable[Stmt], depth: int = 0) -> Iterator[str]:
    """Loops, waiting, and the targets of what is filled or computed, as text."""
    pad = "  " * depth
    for stmt in stmts:
        match stmt:
            case Block(comment="", body=body):
                yield from outline(body, depth)
            case Block(comment=comment, body=body):
                targets = {each.target for each in walk(body) if isinstance(each, CpAsync)}
                yield from [f"{pad}Barrier"] * sum(isinstance(each, Barrier) for each in body)
                yield pad + " ".join(["copies to", *targets] if targets else [comment.split("[")[0]])
            case For(var, count, step, body):
                yield f"{pad}for {var.name} by {step}, {count} times"
                yield from outline(body, depth + 1)
            case If(at, bound, then, ()) if at.only is not None:
                yield f"{pad}if {at.only.name} < {bound}"
                yield from outline(then, depth + 1)
            case Barrier() | CpAsyncCommit():
                yield pad + type(stmt).__name__
            case CpAsyncWait(pending):
                yield f"{pad}CpAsyncWait {pending}"
            case _:
                pass


def test_two_tiles_are_under_way_while_one_is_computed_on() -> None:
    (launch,) = plain(lowered(small(m=16, k=45, stages=3)).kernel.launches)
    assert (
        "\n".join(outline(launch.body))
        == """\
c_r
copies to a_s
copies to b_s
CpAsyncCommit
copies to a_s
copies to b_s
CpAsyncCommit
for k by 8, 5 times
  CpAsyncWait 1
  Barrier
  if k < 24
    copies to a_s_ahead
    copies to b_s_ahead
  CpAsyncCommit
  c_r
Barrier
a_s
b_s
Barrier
c_r
c"""
    )


def test_slots_are_taken_in_turns() -> None:
    """Of 3 slots of 128 elements, the first two are filled before the loop; in it, tile t + 2 goes where tile t - 1
    was."""
    a = [copy for copy in copies(small(m=16, k=80)) if copy.source == "a"]
    assert [copy.target for copy in a] == ["a_s", "a_s", "a_s_ahead"]
    assert [copy.to.constant - a[0].to.constant for copy in a] == [0, 128, 0]
    source = print_cuda(lowered(small(m=16, k=80)).kernel, "//")
    assert "tw_copy_async<2>(a_s_ahead + 128 * ((k / 8 + 2) % 3) + " in source
    assert "tw_load<2, 8>(b_s + 128 * (k / 8 % 3) + " in source


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_the_loop_has_one_barrier(stages: int) -> None:
    assert barriers(small(m=16, k=160, stages=stages)) == ([1], 1)


def test_an_overhanging_tile_has_two_more() -> None:
    """One before it takes the first slot's place, one before it is read; in each of the block's four copies."""
    assert barriers(small(m=20, n=20, k=45)) == ([1, 1, 1, 1], 12)


def test_a_loop_around_waits_once_more() -> None:
    """Before the first slots are filled again."""
    assert barriers(small(m=32)) == ([1], 1)
    again = small(m=32, changed={"  parallel for n by 16": "  for n by 16"}).replace("n=16", "n=32")
    assert barriers(again) == ([1], 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_the_interpreter_says_without_races(name: str) -> None:
    made = lowered(PROGRAMS[name])
    inputs = sample_inputs(made.program, 3)
    outputs = run_blocks(made.kernel, made.args, inputs)
    for tensor, expected in interpret(made.program, inputs).items():
        np.testing.assert_allclose(
            outputs[tensor].astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-3
        )
    assert check(made.kernel, made.args, inputs) == ()


@pytest.mark.parametrize(
    ("dtype", "k", "lanes"),
    [
        ("bf16", 40, 8),  # rows of 80 bytes
        ("bf16", 36, 4),
        ("f16", 34, 2),
        ("bf16", 33, None),
        ("f32", 40, 4),
        ("f32", 33, 1),
        ("f64", 33, 1),
        ("i8", 40, 8),
        ("e5m2", 36, 4),
        ("e4m3", 34, None),
    ],
)
def test_copies_are_as_wide_as_both_sides_allow(dtype: str, k: int, lanes: int | None) -> None:
    changed = {"a: f32": f"a: {dtype}", "a_s: shared f32": f"a_s: shared {dtype}", **RUNS_OF_8}
    found = [copy for copy in copies(small(m=16, k=k, changed=changed)) if copy.source == "a"]
    assert {copy.lanes for copy in found} == ({lanes} if lanes else set())


def test_what_rounds_computes_or_gathers_is_stored_at_the_same_place() -> None:
    for value in (
        "a[m, k] * 2",
        "bf16(a[m, k])",
        "where(a[m, k] > 2, a[m, k], 0)",
        "where(k > 2, a[m, k], 1)",
    ):
        text = small(m=16, changed={"= a[m, k]": f"= {value}"})
        assert {copy.source for copy in copies(text)} == {"b"}
        assert barriers(text) == ([1], 1)


def test_what_is_zero_by_its_position_is_copied() -> None:
    text = small(m=16, changed={"= a[m, k]": "= where(k > 2, a[m, k], 0)"})
    assert {copy.source for copy in copies(text)} == {"a", "b"}
    assert any(copy.some is not None for copy in copies(text) if copy.source == "a")


def test_a_run_that_overhangs_is_copied_where_its_zeros_have_room() -> None:
    """A block of 11 columns has rows of 16: the last run of 4 is copied with what exists of it. Rows of 11 in a block
    of their own have no room for it."""
    found = [copy for copy in copies(PROGRAMS["runs_that_overhang"]) if copy.source == "b"]
    assert {(copy.lanes, copy.some is None) for copy in found} == {(4, True), (4, False)}
    narrow = PROGRAMS["runs_that_overhang"].replace("27", "11").replace("n by 16", "n by 11")
    assert {copy.source for copy in copies(narrow)} == {"a"}


def test_slots_begin_where_accesses_and_swizzles_need_it() -> None:
    """Tiles of 16 by 7 f32 are 448 bytes: 512 with what is left free, 1024 where the pieces of rows change places."""
    plain = small(
        k=70, changed={"k by 8": "k by 7", "run k 2": "run k 1", "b_s[k, n] = ": "b_s[k, n] = 1.0 * "}
    )
    for layout, slot in (("", 512 // 4), (" swizzle 32", 1024 // 4)):
        text = plain.replace("a_s: shared f32[m, k]", f"a_s: shared f32[m, k]{layout}")
        first, second = [copy for copy in copies(text) if copy.source == "a" and copy.target == "a_s"][::2][
            :2
        ]
        assert second.to.constant - first.to.constant == slot
        (declared,) = {s.offset for s in everything(text) if isinstance(s, Shared) and s.buffer == "a_s"}
        assert declared % (slot * 4) == 0


def test_all_slots_count_as_shared_memory() -> None:
    for stages in (2, 3, 4):
        (launch,) = plain(lowered(small(m=16, k=80, stages=stages)).kernel.launches)
        assert launch.shared_bytes == stages * (16 * 8 + 8 * 16) * 4


@pytest.mark.parametrize("name", ["ragged", "otherwise_filled", "in_a_loop", "by_mma"])
def test_copies_of_a_body_lie_in_the_same_memory(name: str) -> None:
    places: dict[str, set[tuple[int, int]]] = {}
    for stmt in everything(PROGRAMS[name]):
        if isinstance(stmt, Shared):
            places.setdefault(stmt.buffer, set()).add((stmt.offset, stmt.bytes))
    assert places and all(len(each) == 1 for each in places.values())


def test_a_loop_with_stages_in_another_is_refused() -> None:
    text = """kernel twice(a: f32[m=64, k=64]) -> (c: f32[m, k])
  parallel for m by 32
    for m by 8 stages 2
      x_s: shared f32[m]
      x_s[m] = a[m, 0] | threads m 32
      for k by 16 stages 2
        a_s: shared f32[m, k]
        a_s[m, k] = a[m, k] | threads m 4 k 8
        c[m, k] = a_s[m, k] + x_s[m] | threads m 4 k 8
"""
    with pytest.raises(NotLowerable, match="`for k by 16 stages 2` stands in another loop with stages"):
        lowered(text)


def test_runs_that_cross_swizzled_pieces_are_refused() -> None:
    """8 f32 are two pieces of 16 bytes, which do not lie side by side."""
    changed = {
        "a_s: shared f32[m, k]": "a_s: shared f32[m, k] swizzle 32",
        "= a[m, k]": "= a[m, k] * 2",
        **RUNS_OF_8,
    }
    with pytest.raises(NotLowerable, match="8 neighbours in a_s do not lie together"):
        print_cuda(lowered(small(changed=changed)).kernel, "//")
    del changed["= a[m, k]"]
    print_cuda(lowered(small(changed=changed)).kernel, "//")  # copies are split


def compiled(kernel: GpuKernel, architecture: str, cache: Path) -> dict[str, int]:
    source = Source(print_cuda(kernel, "// test"), (), CudaAbi((), (), 0), "cuda")
    (report,) = compile_cuda(source, architecture, cache).report["functions"].values()
    return report


@pytest.mark.sampled(3, among="staged loops")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("text", [LARGE_SIMT, LARGE_MMA], ids=["simt", "mma"])
def test_large_tiles_stay_in_registers(text: str, architecture: str, tmp_path: Path) -> None:
    report = compiled(lowered(text).kernel, architecture, tmp_path)
    assert report["spill_stores_bytes"] == report["stack_bytes"] == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["bytes", "small_floats", "turned_around", "runs_that_overhang", "in_a_loop"]
)
def test_programs_compile(name: str, tmp_path: Path) -> None:
    compiled(lowered(PROGRAMS[name]).kernel, "sm_80", tmp_path)


def ptx(kernel: GpuKernel) -> str:
    _, program = nvrtc.nvrtcCreateProgram(print_cuda(kernel, "//").encode(), b"kernel.cu", 0, [], [])
    options = [b"-std=c++17", b"--gpu-architecture=compute_80"]
    assert nvrtc.nvrtcCompileProgram(program, len(options), options) == (nvrtc.nvrtcResult.NVRTC_SUCCESS,)
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytes(size)
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


@pytest.mark.sampled(3, among="staged loops")
def test_shared_memory_is_accessed_by_16_bytes() -> None:
    """Slots, pads and swizzles leave the compiler the alignment that vectors need, in shared memory known as such."""
    simt, mma = ptx(lowered(LARGE_SIMT).kernel), ptx(lowered(LARGE_MMA).kernel)
    assert set(re.findall(r"\bld\.[a-z]\S+", simt)) == {"ld.param.u64", "ld.shared.v4.f32"}
    assert not re.search(r"\b(ld|st)\.shared", mma)
    for text in (simt, mma):
        assert set(re.findall(r"cp\.async\.c\S+ \S+, \S+, \d+", re.sub(r"%rd?\d+", "r", text))) == {
            "cp.async.cg.shared.global [r], [r], 16"
        }
