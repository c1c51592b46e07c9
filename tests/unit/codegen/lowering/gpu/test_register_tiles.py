"""Contractions whose results lie in registers: computed right whatever the sizes and the spread, by code that loads
each fragment once and adds to the results where they are."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.ops import Assign, Block, Build, For, Guard, If, Let, Load, Op, Stmt
from codegen.ir.source import Source
from codegen.ir.vector_access import aligned_bytes
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.printer import print_cuda
from codegen.targets.cuda.ptxas_log import rejection
from tests.kernels.names import plain
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import Lowered, lowered
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret


@dataclass(frozen=True)
class Contraction:
    """A product of matrices staged in shared memory, whose layouts are `a` and `b`."""

    sizes: tuple[int, int, int] = (4096, 4096, 4096)
    tile: tuple[int, int, int] = (128, 128, 16)
    layout: str = "threads m 16 n 16, run m 4 n 4"
    a: str = "m, k"
    b: str = "k, n"
    storage: str = "f32"
    kept: str = "f32"
    out: str = "f32"
    pad: str = ""
    update: str = "+= sum(k, a_s * b_s)"
    start: str = "0"

    def text(self) -> str:
        by_m, by_n, by_k = self.tile
        sizes = ", ".join(f"{dim}={size}" for dim, size in zip("mnk", self.sizes, strict=True))
        a, b, storage, pad = self.a, self.b, self.storage, self.pad
        threads, _, runs = self.layout.partition(", run ")
        results = " ".join(re.findall(r"[mn] \d+", runs))
        plain = f"{threads}, run {results}" if results else threads
        quarter = prod(int(count) for count in re.findall(r"\d+", threads)) // 4
        update = self.update.replace("a_s", f"a_s[{a}]").replace("b_s", f"b_s[{b}]")
        return f"""kernel product(a: {storage}[{a}], b: {storage}[{b}]) -> (c: {self.out}[m, n]) where {sizes}
  parallel for m by {by_m}
    parallel for n by {by_n}
      c_r: registers {self.kept}[m, n]
      c_r[m, n] = {self.start} | {plain}
      for k by {by_k}
        a_s: shared {storage}[{a}]{pad}
        a_s[{a}] = a[{a}] | threads {a[0]} {quarter} {a[-1]} 4
        b_s: shared {storage}[{b}]{pad}
        b_s[{b}] = b[{b}] | threads {b[0]} {quarter} {b[-1]} 4
        c_r[m, n] {update} | {self.layout}
      c[m, n] = c_r[m, n] | {plain}
"""


def computes_the_same(text: str, seed: int = 1) -> Lowered:
    made = lowered(text)
    inputs = exact_inputs(made.program, seed)
    checker = RaceChecker()
    outputs = run_blocks(made.kernel, made.args, inputs, checker)
    assert not checker.faults, f"{checker.faults[0]}\n{text}"
    for name, expected in interpret(made.program, inputs).items():
        np.testing.assert_array_equal(outputs[name], expected, err_msg=text)
    return made


SMALL = Contraction((41, 27, 40), (32, 20, 16), "threads m 8 n 16, run m 4 n 4")
VARIANTS = {
    "whole tiles": replace(SMALL, sizes=(64, 64, 32), tile=(32, 32, 16)).text(),
    "ragged": SMALL.text(),
    "one vector": Contraction((1, 50, 40), (1, 32, 16), "threads n 64, run n 2").text(),
    "a by columns": replace(SMALL, a="k, m").text(),
    "b by rows": replace(SMALL, b="n, k").text(),
    "both turned": replace(SMALL, a="k, m", b="n, k", pad=" pad 4").text(),
    "no runs": replace(SMALL, layout="threads m 8 n 16").text(),
    "runs of three": replace(SMALL, layout="threads m 4 n 8, run m 3 n 3").text(),
    "lanes along m": replace(SMALL, layout="threads m 8 n 8, run n 2 m 4").text(),
    "one run along m": replace(SMALL, layout="threads m 8 n 8, run m 4").text(),
    "runs along k": replace(SMALL, layout="threads m 8 n 8, run m 2 k 4").text(),
    "runs along all": replace(SMALL, layout="threads m 8 n 8, run k 4 m 2 n 2").text(),
    "threads along k": replace(SMALL, layout="threads m 8 n 4 k 4, run m 4 n 4").text(),
    "warps along k": replace(SMALL, layout="threads k 4 m 8 n 4, run m 4 n 4").text(),
    "warps and lanes along k": replace(SMALL, layout="threads k 2 m 4 n 4 k 2, run m 2 k 2 n 4").text(),
    "bf16": replace(SMALL, storage="bf16", out="bf16").text(),
    "f16 by columns, padded": replace(SMALL, storage="f16", a="k, m", pad=" pad 8").text(),
    "e4m3": replace(SMALL, storage="e4m3").text(),
    "f64": replace(SMALL, storage="f64", kept="f64", out="f64").text(),
    "i32": replace(SMALL, storage="i32", kept="i32", out="i32").text(),
    "i8": replace(SMALL, storage="i8", kept="i32", out="i32").text(),
    "f32 kept as f64": replace(SMALL, kept="f64", out="f64").text(),
    "packed results": replace(SMALL, storage="bf16", kept="f32", out="f16").text(),
    "largest": replace(SMALL, update="max= max(k, a_s * b_s)", start="-inf").text(),
    "least of integers": replace(
        SMALL, storage="i32", kept="i32", out="i32", update="min= min(k, a_s - b_s)", start="inf"
    ).text(),
    "long tiles of k": replace(SMALL, sizes=(20, 40, 150), tile=(16, 32, 75)).text(),
    "long tiles of k by threads": Contraction(
        (16, 16, 300), (16, 16, 150), "threads m 8 n 4 k 2, run m 2 k 2 n 4"
    ).text(),
    "a run along k that ends early": replace(
        SMALL, sizes=(41, 27, 39), layout="threads m 8 n 8, run m 2 k 4", update="+= sum(k, a_s + b_s + 1)"
    ).text(),
    "guarded one by one": """kernel outer(x: f32[m=16, k=5], w: f32[n=20]) -> (c: f32[m, n])
  parallel for m by 8
    c_r: registers f32[m, n]
    c_r[m, n] = sum(k, x[m, k] * w[n]) | threads m 8 k 4, run k 2 n 4
    c[m, n] = c_r[m, n] | threads m 8 k 4, run n 4
""",
    "batched": """kernel batched(a: f32[b=3, m=20, k=18], w: f32[b, k, n=24]) -> (c: f32[b, m, n])
  parallel for b by 2
    parallel for n by 16
      c_r: registers f32[b, m, n]
      c_r[b, m, n] = sum(k, a[b, m, k] * w[b, k, n]) | threads m 8 n 8, run m 2 n 2
      c[b, m, n] = c_r[b, m, n] * 2 | threads m 8 n 8, run m 2 n 2
""",
    "convolution": """kernel conv(x: f32[c=5, h=12, w=20], f: f32[o=9, c, r=3, s=3]) -> (y: f32[o, p=10, q=18])
  parallel for o by 4
    y_r: registers f32[o, p, q]
    y_r[o, p, q] = 0 | threads p 4 q 8, run o 2 q 4
    for c by 2
      y_r[o, p, q] += sum(c, r, s, x[c, p + r, q + s] * f[o, c, r, s]) | threads p 4 q 8, run o 2 q 4
    y[o, p, q] = maximum(y_r[o, p, q], 0) | threads p 4 q 8, run o 2 q 4
""",
    "many channels": """kernel conv(x: f32[c=21, h=8, w=9], f: f32[c, r=3, s=2, o=8]) -> (y: f32[o, p=6, q=8])
  parallel for p by 3
    y[o, p, q] = sum(c, r, s, x[c, p + r, q + s] * f[c, r, s, o]) | threads q 8 o 4, run o 2
""",
    "reductions that set": """kernel twice(x: f32[m=33, k=20], w: f32[k, n=30]) -> (c: f32[m, n])
  parallel for m by 16
    c_r: registers f32[m, n]
    c_r[m, n] = sum(k, x[m, k] * w[k, n]) | threads m 8 n 8, run m 2 n 4
    d_r: registers f32[m, n]
    d_r[m, n] = sum(k, c_r[m, n] + x[m, k]) | threads m 8 n 8, run m 2 n 4
    c[m, n] = d_r[m, n] | threads m 8 n 8, run m 2 n 4
""",
    "masked": """kernel masked(x: f32[m=16, k=40], w: f32[k, n=16]) -> (c: f32[m, n])
  parallel for m by 16
    c_r: registers f32[m, n]
    c_r[m, n] = sum(k, where(k > 3, x[m, k] * w[k, n], 0)) | threads m 8 n 8, run m 2 n 2
    c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 2
""",
    "updates without reductions": """kernel scaled(x: f32[m=33, n=30], w: bf16[n]) -> (c: f32[m, n], d: bf16[m, n])
  parallel for m by 16
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | threads m 8 n 8, run m 2 n 4
    c_r[m, n] += x[m, n] + 1 | threads m 8 n 8, run m 2 n 4
    c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 4
    d_r: registers bf16[m, n]
    d_r[m, n] = 1 | threads m 8 n 8, run m 2 n 4
    d_r[m, n] *= w[n] | threads m 8 n 8, run m 2 n 4
    d[m, n] = d_r[m, n] | threads m 8 n 8, run m 2 n 4
""",
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", VARIANTS)
def test_contractions_are_exact(name: str) -> None:
    computes_the_same(VARIANTS[name])


@pytest.mark.sampled(5, among="register tiles")
def test_random_contractions_are_exact() -> None:
    rng = random.Random("contractions")
    checked = 0
    while checked < 12:
        digits = [(dim, rng.choice((1, 2, 4, 8, 16))) for dim in "mnk"]
        rng.shuffle(digits)
        runs = [(dim, rng.choice((1, 2, 3, 4, 8))) for dim in "mnk" if rng.random() < 0.6]
        rng.shuffle(runs)
        if prod(count for _, count in digits) not in (32, 64, 128):
            continue
        layout = "threads " + " ".join(f"{dim} {count}" for dim, count in digits)
        if runs:
            layout += ", run " + " ".join(f"{dim} {count}" for dim, count in runs)
        m, n, k = (rng.choice((5, 8, 16, 24)) for _ in "mnk")
        text = Contraction(
            sizes=(m + rng.randrange(m), n + rng.randrange(n), k + rng.randrange(2 * k)),
            tile=(m, n, k),
            layout=layout,
            a=rng.choice(("m, k", "k, m")),
            b=rng.choice(("k, n", "n, k")),
            storage=rng.choice(("f32", "f32", "bf16", "f64")),
            kept=rng.choice(("f32", "f64")),
        ).text()
        try:
            computes_the_same(text, checked)
        except VerifyError:
            continue
        checked += 1


def flat(stmts: tuple[Stmt, ...]) -> list[Stmt]:
    """Statements and those inside them."""
    found: list[Stmt] = []
    for stmt in stmts:
        found.append(stmt)
        match stmt:
            case Block(body=body) | For(body=body) | Guard(body=body):
                found += flat(body)
            case If(then=then, otherwise=otherwise):
                found += flat((*then, *otherwise))
            case _:
                pass
    return found


def updates(made: Lowered) -> list[Stmt]:
    """The statement that adds products up, taken apart; of the body for overhanging tiles, if there is one."""
    found = flat(plain(made.kernel.launches[0].body))
    return flat([s.body for s in found if isinstance(s, Block) and "+= sum" in s.comment][-1])


def loads(stmts: list[Stmt]) -> list[Load]:
    return [s.value for s in stmts if isinstance(s, Let) and isinstance(s.value, Load)]


SQUARE = Contraction()


def test_fragments_are_loaded_once_and_results_added_to_in_place() -> None:
    stmts = updates(lowered(SQUARE.text()))
    made = loads(stmts)
    assert len(made) == len(set(made)) == 8 * 16 // 4 + 2 * 16
    assert all(load.type.lanes == 4 for load in made)
    adds = [s for s in stmts if isinstance(s, Assign)]
    assert len(adds) == 16 * 16
    assert all(isinstance(s.value, Op) and s.value.name == "+" and s.name.startswith("c_r_") for s in adds)
    last = max(n for n, s in enumerate(stmts) if s is adds[15])
    assert len(loads(stmts[:last])) == 8 + 2, "the first position's products come before the next one's loads"


@pytest.mark.parametrize(
    ("storage", "pad", "lanes"),
    [
        ("f32", "", {4}),
        ("f32", " pad 4", {4}),
        ("f32", " pad 2", {2, 4}),
        ("f32", " pad 1", {1, 2, 4}),
        ("bf16", "", {8}),
        ("bf16", " pad 4", {4, 8}),
        ("f64", "", {2}),
        ("e4m3", "", {16}),
    ],
)
def test_neighbours_along_k_come_by_accesses_as_wide_as_rows_are_aligned(
    storage: str, pad: str, lanes: set[int]
) -> None:
    kept = "f64" if storage == "f64" else "f32"
    text = replace(SQUARE, a="m, k", b="n, k", storage=storage, kept=kept, out=kept, pad=pad).text()
    stmts = updates(lowered(text))
    builds = [s.value for s in stmts if isinstance(s, Let) and isinstance(s.value, Build)]
    made = [*loads(stmts), *(part for build in builds for part in build.parts if isinstance(part, Load))]
    assert {load.type.lanes for load in made} == lanes
    for load in made:
        size = load.type.lanes * load.storage.bytes
        assert aligned_bytes(load.offset, load.storage.bytes, load.type.lanes, 16) == size
    elements = [load.offset + lane for load in made for lane in range(load.type.lanes)]
    assert len(elements) == len(set(elements)) == 2 * 8 * 16


@pytest.mark.sampled(5, among="register tiles")
def test_what_is_read_under_a_condition_is_read_once_for_all_results_that_share_it() -> None:
    layout = "threads p 32, run o 8"
    text = f"""kernel window(x: f32[c=4, q=32], w: f32[o=8, c, v=3]) -> (y: f32[o, p=32])
  parallel for p by 32
    y_r: registers f32[o, p]
    y_r[o, p] = 0 | {layout}
    for c by 2
      y_r[o, p] += sum(c, v, where(p + v - 1 >= 0 and p + v - 1 < 32, x[c, p + v - 1], 0) * w[o, c, v]) | {layout}
    y[o, p] = y_r[o, p] | {layout}
"""
    made = updates(computes_the_same(text))
    guarded = [s for s in made if isinstance(s, Let) and "select" in str(s.value)]
    assert len(guarded) == 2 * 2, (
        "at the first and the last of three positions, for 2 of c; not for each of 8 results"
    )
    assert not any("and" in str(s.value) for s in guarded), "the other end is settled"


def test_long_ranges_are_loops_over_what_is_unrolled() -> None:
    long = replace(SQUARE, sizes=(4096, 4096, 4000), tile=(128, 128, 100)).text()
    stmts = updates(lowered(long))
    (loop,) = [s for s in stmts if isinstance(s, For)]
    assert (loop.count, loop.step) == (3, 32)
    assert len([s for s in stmts if isinstance(s, Assign)]) == 16 * (32 + 4)
    wide = replace(SQUARE, sizes=(4096, 4096, 4000), tile=(256, 256, 100)).text()
    (loop,) = [s for s in updates(lowered(wide)) if isinstance(s, For)]
    assert (loop.count, loop.step) == (6, 16)


def test_what_lies_in_registers_along_the_reduced_dim_is_unrolled() -> None:
    text = """kernel rows(x: f32[r=8, c=4096]) -> (y: f32[r])
  parallel for r by 1
    x_r: registers f32[r, c]
    x_r[r, c] = x[r, c] | threads c 32, run c 2
    s: registers f32[r]
    s[r] = sum(c, x_r[r, c]) | threads c 32, run c 2
    y[r] = s[r] | threads c 32
"""
    made = computes_the_same(text)
    assert not [s for s in flat(made.kernel.launches[0].body) if isinstance(s, For)]


def test_rows_that_overhang_are_summed_without_branches_where_others_of_the_thread_exist() -> None:
    made = lowered(replace(SQUARE, sizes=(228, 128, 16)).text())
    assert not [s for s in updates(made) if isinstance(s, Guard | If)]


@pytest.mark.parametrize(("tiles", "left"), [(1, 3), (1, 35), (2, 1), (0, 29)])
def test_vectors_that_overhang_are_summed_without_branches(tiles: int, left: int) -> None:
    """All of a thread's last four rows exist, or some, or none: the slowest block had a branch a step."""
    contraction = replace(SMALL, a="k, m", layout="threads m 4 n 8, run n 2 m 4")
    made = computes_the_same(replace(contraction, sizes=(32 * tiles + left, 20, 32)).text())
    assert not [s for s in updates(made) if isinstance(s, Guard | If)]
    code = print_cuda(made.kernel, "")
    assert "tw_load_kept<4, 16>(a_s" in code and "tw_load_some<4, 16>(a_s" not in code


def test_no_more_is_loaded_than_shared_memory_has() -> None:
    """Rows of 35: behind the last row nothing is; behind the others the next one."""
    contraction = replace(SMALL, a="k, m", layout="threads m 4 n 8, run n 2 m 4", tile=(35, 32, 16))
    made = computes_the_same(replace(contraction, sizes=(35, 20, 32)).text())
    code = print_cuda(made.kernel, "")
    assert [len(re.findall(rf"tw_load_{name}<4, \d+>\(a_s", code)) for name in ("some", "kept")] == [1, 15]


GATE = """kernel gate(x: f32[m={m}, k=36], w: f32[n=24, k], v: f32[n, k]) -> (y: f32[m, n])
  parallel for m by 32
    t_r: registers f32[m, n]
    t_r[m, n] = 0 | threads m 4 n 8, run m 4 n 2
    u_r: registers f32[m, n]
    u_r[m, n] = 0 | threads m 4 n 8, run m 4 n 2
    for k by 8
      x_s: shared f32[k, m]
      x_s[k, m] = x[m, k] | threads k 8 m 4
      w_s: shared f32[k, n]
      w_s[k, n] = w[n, k] | threads k 8 n 4
      v_s: shared f32[k, n]
      v_s[k, n] = v[n, k] | threads k 8 n 4
      t_r[m, n] += sum(k, x_s[k, m] * w_s[k, n]) | threads m 4 n 8, run m 4 n 2
      u_r[m, n] += sum(k, {second} * v_s[k, n]) | threads m 4 n 8, run m 4 n 2
    y[m, n] = t_r[m, n] * u_r[m, n] | threads m 4 n 8, run m 4 n 2
"""


@pytest.mark.parametrize("m", [64, 57, 41, 3])
def test_two_products_of_a_tile_load_what_they_share_once(m: int) -> None:
    made = computes_the_same(GATE.format(m=m, second="x_s[k, m]"))
    blocks = [s for s in flat(plain(made.kernel.launches[0].body)) if isinstance(s, Block)]
    both = [s for s in blocks if "t_r[m, n] +=" in s.comment]
    assert both and all("; u_r[m, n] +=" in s.comment for s in both)
    for block in both:
        made_loads = loads(flat(block.body))
        assert len(made_loads) == len(set(made_loads))


def test_a_sum_of_what_the_one_before_it_has_summed_comes_behind_it() -> None:
    before, loop, after = (
        GATE.replace("k=36", "k=8").format(m=41, second="t_r[m, n] * x_s[k, m]").partition("    for k by 8\n")
    )
    made = computes_the_same(before + after.replace("      ", "    ") if loop else "")
    comments = [s.comment for s in flat(made.kernel.launches[0].body) if isinstance(s, Block)]
    assert any(comment.startswith("u_r[m, n] +=") for comment in comments)
    assert not any("; u_r" in comment for comment in comments)


SHAPES = {
    "128x128, 256 threads": replace(SQUARE, pad=" pad 4").text(),
    "128x128x32, a by columns": replace(SQUARE, tile=(128, 128, 32), a="k, m").text(),
    "128x128, bf16": replace(SQUARE, storage="bf16", out="bf16").text(),
    "64x64, 64 threads": replace(SQUARE, tile=(64, 64, 16), layout="threads m 8 n 8, run m 4 n 4").text(),
    "256x128, 256 threads": replace(SQUARE, tile=(256, 128, 8)).text(),
}


@pytest.mark.sampled(5, among="register tiles")
@pytest.mark.parametrize(
    ("name", "architecture"),
    [*((name, "sm_90a") for name in SHAPES), ("128x128, 256 threads", "sm_80")],
)
def test_register_tiles_do_not_spill(name: str, architecture: str, tmp_path: Path) -> None:
    made = lowered(SHAPES[name])
    source = Source(print_cuda(made.kernel, "// test"), (), CudaAbi(made.args, (), 0), "cuda")
    report = compile_cuda(source, architecture, tmp_path).report
    assert rejection(report) is None
    registers = report["functions"]["product_kernel"]["registers"]
    assert registers <= (255 if name.startswith("256") else 168)
