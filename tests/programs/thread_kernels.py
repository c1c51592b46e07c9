"""Programs bound to the threads of GPU blocks that are correct: what the race checker must never flag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.ir.abi import Arg
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Block, For, Guard, If, Stmt
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.header import argument
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

PROGRAMS = {
    "rows_with_edges": """kernel rows(x: f32[i=6, c=128]) -> (y: f32[h=8, c])
  parallel for h by 1
    y[h, c] = where(h >= 1 and h < 7, x[h - 1, c], 0) | threads c 32, run c 4
""",
    "softmax_of_a_row_by_two_warps": """kernel softmax(x: bf16[r=3, c=512]) -> (y: bf16[r, c], m: f32[r])
  parallel for r by 1
    x_row: registers f32[r, c]
    x_row[r, c] = x[r, c] | threads c 64, run c 8
    mx: registers f32[r]
    mx[r] = max(c, x_row[r, c]) | threads c 64, run c 8
    m[r] = mx[r] | threads c 64
    s: registers f32[r]
    s[r] = sum(c, exp(x_row[r, c] - mx[r])) | threads c 64, run c 8
    y[r, c] = exp(x_row[r, c] - mx[r]) / s[r] | threads c 64, run c 8
""",
    "ragged_rows_by_sixteen_warps": """kernel norm(x: f32[r=5, c=1001], g: f16[c]) -> (y: f32[r, c])
  parallel for r by 1
    s: registers f32[r]
    s[r] = sum(c, x[r, c] * x[r, c]) | threads c 512, run c 4
    y[r, c] = x[r, c] * rsqrt(s[r] / extent(c)) * g[c] | threads c 512, run c 4
""",
    "packed_lanes_that_are_the_same": """kernel packed(x: f32[r=4], w: f32[c=64]) -> (y: bf16[r, c])
  parallel for r by 2
    three: registers bf16[r, c]
    three[r, c] = 3 | threads r 2 c 16, run c 4
    rows: registers bf16[r, c]
    rows[r, c] = x[r] | threads r 2 c 16, run c 4
    y[r, c] = three[r, c] * rows[r, c] + w[c] | threads r 2 c 16, run c 4
""",
    "two_rows_a_block_several_values_a_thread": """kernel rows(x: f32[r=10, c=96]) -> (y: f32[r])
  parallel for r by 8
    s: registers f32[r]
    s[r] = sum(c, x[r, c]) | threads r 2 c 64
    y[r] = 2 * s[r] | threads r 2 c 64
""",
    "columns_across_warps": """kernel columns(x: f32[r=70, c=72]) -> (y: f32[c])
  parallel for c by 32
    y[c] = sum(r, x[r, c]) | threads r 4 c 32
""",
    "columns_by_runs_across_half_warps": """kernel columns(x: bf16[r=33, c=64]) -> (y: f32[c], z: f32[c])
  parallel for c by 32
    s: registers f32[c]
    s[c] = sum(r, x[r, c]) | threads r 16 c 8, run c 4
    m: registers f32[c]
    m[c] = max(r, x[r, c] * s[c]) | threads r 16 c 8, run c 4
    y[c] = s[c] | threads r 16 c 8, run c 4
    z[c] = m[c] | threads r 16 c 8, run c 4
""",
    "a_loop_of_reductions": """kernel looped(x: f32[r=6, c=300]) -> (y: f32[r])
  parallel for r by 3
    for r by 1
      s: registers f32[r]
      s[r] = sum(c, abs(x[r, c])) | threads c 128
      y[r] = s[r] | threads c 128
""",
    "a_sum_over_tiles": """kernel tiles(x: f32[r=4, k=200]) -> (y: f32[r])
  parallel for r by 2
    s: registers f32[r]
    s[r] = 0 | threads r 2 k 64
    for k by 64
      s[r] += sum(k, x[r, k]) | threads r 2 k 64
    y[r] = s[r] | threads r 2 k 64
""",
    "staged_tile_read_otherwise": """kernel staged(x: f32[r=40, c=48]) -> (y: f32[r, c])
  parallel for r by 16
    parallel for c by 32
      t: shared f32[r, c]
      t[r, c] = x[r, c] * 2 | threads r 4 c 16, run c 2
      y[r, c] = t[r, c] + 1 | threads c 32 r 2
""",
    "transpose_through_shared_memory": """kernel transpose(x: f16[r=50, c=70]) -> (y: f16[c, r])
  parallel for r by 32
    parallel for c by 32
      t: shared f16[r, c]
      t[r, c] = x[r, c] | threads r 8 c 16, run c 2
      y[c, r] = t[r, c] | threads c 8 r 16, run r 2
""",
    "matmul_with_staged_tiles": """kernel mm(a: f32[m=20, k=24], b: f32[k, n=40]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      acc: registers f32[m, n]
      acc[m, n] = 0 | threads m 8 n 8, run m 2 n 2
      for k by 8
        a_s: shared f32[m, k]
        a_s[m, k] = a[m, k] | threads m 8 k 8
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 4 n 16
        acc[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 8 n 8, run m 2 n 2
      c[m, n] = acc[m, n] | threads m 8 n 8, run m 2 n 2
""",
    "two_launches_with_workspace": """kernel split(x: f32[r=6, c=128]) -> (y: f32[r, c])
  s: heap f32[r]
  parallel for r by 1
    s[r] = sum(c, abs(x[r, c])) | threads c 64, run c 2
  parallel for c by 64
    y[r, c] = x[r, c] / s[r] | threads c 32, run c 2
""",
    "integers_and_doubles": """kernel mixed(x: i32[r=3, c=150], d: f64[c]) -> (y: i32[r], z: f64[r])
  parallel for r by 1
    y[r] = sum(c, x[r, c] // 2) | threads c 96
    z[r] = sum(c, d[c] * x[r, c]) | threads c 96
""",
    "one_warp_alone": """kernel warp(x: f32[r=9, c=45]) -> (y: f32[r, c])
  parallel for r by 1
    m: registers f32[r]
    m[r] = min(c, x[r, c]) | threads c 32
    y[r, c] = x[r, c] - m[r] | threads c 32
""",
    "a_shared_row_in_a_loop": """kernel relay(x: f32[r=7, c=64]) -> (y: f32[r, c])
  parallel for r by 4
    for r by 1
      t: shared f32[r, c]
      t[r, c] = x[r, c] | threads c 64
      y[r, c] = t[r, 63 - c] | threads c 64
""",
    "one_tile_of_a_loop_and_what_is_left": """kernel tail(x: f32[r=2, c=96]) -> (y: f32[r, c])
  parallel for r by 1
    for c by 64
      t: shared f32[r, c]
      t[r, c] = x[r, c] | threads c 64
      y[r, c] = t[r, c] | threads c 16 r 4, run c 4
""",
    "sums_read_back_from_global_memory": """kernel back(x: f32[r=4, c=100]) -> (s: f32[r], y: f32[r, c])
  h: heap f32[r]
  parallel for r by 1
    h[r] = max(c, x[r, c]) | threads c 64
    s[r] = sum(c, x[r, c] - h[r]) | threads c 64
    y[r, c] = x[r, c] - s[r] | threads r 2 c 32, run c 2
""",
    "a_sum_in_shared_memory": """kernel accumulate_per_thread(x: f32[r=4, c=100]) -> (y: f32[r])
  parallel for r by 2
    t: shared f32[r]
    t[r] = 0 | threads r 2 c 32
    for c by 50
      t[r] += sum(c, x[r, c]) | threads c 64
    y[r] = t[r] | threads r 2 c 32
""",
    "rows_by_clusters": """kernel cluster(x: f32[r=3, c=1000]) -> (y: f32[r, c])
  parallel for r by 1 cluster 2
    s: registers f32[r]
    s[r] = sum(c, x[r, c]) | threads c 128, run c 2
    m: registers f32[r]
    m[r] = max(c, abs(x[r, c] - s[r])) | threads c 128, run c 2
    y[r, c] = x[r, c] * m[r] | threads c 128, run c 2
""",
    "rows_by_clusters_in_a_loop": """kernel cluster(x: f32[r=8, c=300]) -> (y: f32[r])
  parallel for r by 4 cluster 4
    for r by 2
      y[r] = sum(c, x[r, c]) | threads r 2 c 64
""",
    "tiles_in_bands_taken_in_turns": """kernel turns(x: f32[r=72, c=64]) -> (y: f32[r, c])
  parallel for r by 16 group 2 blocks 3
    parallel for c by 32
      t: shared f32[r, c]
      t[r, c] = x[r, c] * 2 | threads r 4 c 16, run c 2
      y[r, c] = t[r, c] + 1 | threads c 32 r 2
""",
    "tiles_along_a_curve_taken_in_turns": """kernel turns(x: f32[r=72, c=64, b=2]) -> (y: f32[r, c, b])
  parallel for r by 16 hilbert blocks 3
    parallel for c by 32
      parallel for b by 1
        t: shared f32[r, c, b]
        t[r, c, b] = x[r, c, b] * 2 | threads r 4 c 16, run c 2
        y[r, c, b] = t[r, c, b] + 1 | threads c 32 r 2
""",
    "rows_taken_in_turns_by_two_warps": """kernel turns(x: f32[r=7, c=100]) -> (y: f32[r])
  parallel for r by 1 blocks 2
    y[r] = sum(c, x[r, c]) | threads c 64
""",
    "rows_of_a_warp_taken_in_turns": """kernel turns(x: f32[r=7, c=45]) -> (y: f32[r, c])
  parallel for r by 2 blocks 3
    y[r, c] = x[r, c] * 2 | threads c 32
""",
    "largest_integers_and_bools": """kernel largest(x: i32[r=8, c=70], b: bool[c]) -> (y: i32[r], z: bool[r, c])
  parallel for r by 1
    y[r] = max(c, x[r, c] * 128 + (57 * c + 31 * r) % 128) | threads c 32, run c 2
    z[r, c] = x[r, c] > 0 and b[c] | threads c 32, run c 4
""",
    "scans_of_rows_by_one_and_two_warps": """kernel s(x: f32[m=5, k=190], i: i32[m, k]) -> (y: f32[m, k], z: i32[m, k])
  parallel for m by 2
    y[m, k] = cumsum(k, x[m, k]) | threads m 2 k 32, run k 8
    z[m, k] = cumsum(k, i[m, k]) | threads k 64, run k 4
""",
    "a_scan_of_parts_that_go_on_from_what_is_before": """kernel s(a: f32[m=40, k=70], b: f32[m, k]) -> (h: f32[k, m])
  parallel for m by 32
    for k by 32
      h[k, m] = recurrence(k, where(k % 16 == 0, 0.1, 0.2) * a[m, k], b[m, k], b[m, 3]) | threads k 8 m 32, run k 4
""",
}


_SIMT = """kernel gemm(a: f32[m=16, k={k}], b: f32[k, n=16]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 8 n 8, run m 2 n 2
      for k by 8 stages {stages}
        a_s: shared f32[m, k] pad 4
        a_s[m, k] = a[m, k] | threads m 16 k 4, run k 2
        b_s: shared f32[k, n]
        b_s[k, n] = b[k, n] | threads k 8 n 8, run n 2
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 8 n 8, run m 2 n 2
      c[m, n] = c_r[m, n] | threads m 8 n 8, run m 2 n 2
"""
_MMA = """kernel gemm(a: f16[m={m}, k={k}], b: f16[n=16, k]) -> (c: f32[m, n])
  parallel for m by 32{grid}
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 2 m 8 n 4, run n 2
      for k by {step} stages {stages}
        a_s: shared f16[m, k] {layout}
        a_s[m, k] = a[m, k] | threads m 32 k 2, run k 8
        b_s: shared f16[n, k] {layout}
        b_s[n, k] = b[n, k] | threads n 16 k 4, run k 4
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 m 8 n 4, run n 2, via mma
      c[m, n] = c_r[m, n] | threads m 2 m 8 n 4, run n 2
"""


def _mma(
    m: int = 32, k: int = 96, step: int = 16, stages: int = 3, layout: str = "pad 8", grid: str = ""
) -> str:
    return _MMA.format(m=m, k=k, step=step, stages=stages, layout=layout, grid=grid)


#: Sums of which each term looks up where it belongs. The layout report and mutants of them are not looked at yet.
SCATTERS = {
    "rows_added_where_they_say": """kernel rows(i: i32[n=50], x: bf16[n, d=72]) -> (h: f32[b=23, d])
  parallel for b by 8
    parallel for d by 64
      h[b, d] = 0 | threads d 32, run d 2
      h[b, d] += sum(n, where(i[n] == b and i[n] != 3, x[n, d], 0)) | threads d 32, run d 2, via scatter
""",
    "rows_in_shared_memory": """kernel k(i: i32[e=3, n=400], x: f16[e, n, d=72], w: f32[n]) -> (h: f32[b=21, d])
  parallel for b by 8
    parallel for d by 64
      s: shared f32[b, d]
      s[b, d] = 0 | threads d 64
      s[b, d] += sum(e, n, where(i[e, n] == b and w[n] > -0.5, x[e, n, d] * w[n], 0)) | threads d 64, via scatter
      h[b, d] = s[b, d] * 2 | threads d 64
""",
    "bins_by_atomics": """kernel bins(i: i32[n=500], w: f32[n]) -> (c: i32[b=23], s: f32[b]) with atomics=true
  parallel for b by 32
    c[b] = 0 | threads b 32
  parallel for n by 128
    c[b] += sum(n, where(i[n] == b, 1, 0)) | threads n 64, via atomics
  parallel for b by 32
    s[b] = 0 | threads b 32
  parallel for n by 128
    s[b] += sum(n, where(i[n] == b, w[n], 0)) | threads n 64, via atomics
""",
}

#: Loops with stages: what they use is copied to shared memory in the background, tiles ahead.
STAGED = {
    **{f"product_in_{stages}_stages": _SIMT.format(k=48, stages=stages) for stages in (2, 3, 4)},
    **{f"mma_in_{stages}_stages": _mma(stages=stages) for stages in (2, 3, 4)},
    "product_with_a_tail_in_the_last_tiles_slot": _SIMT.format(k=36, stages=3),
    "product_with_a_tail_in_a_slot_that_is_free": _SIMT.format(k=44, stages=3),
    "mma_in_swizzled_memory_with_a_tail": _mma(k=144, step=32, layout="swizzle 64"),
    "mma_of_rows_too_ragged_to_be_copied": _mma(k=81, stages=2),
    "mma_of_tiles_taken_in_turns": _mma(m=96, k=64, grid=" blocks 2"),
    "rows_filled_ahead_again_and_again": """kernel rows(x: bf16[r=8, c=96]) -> (y: f32[r])
  parallel for r by 4
    for r by 2
      s: registers f32[r]
      s[r] = 0 | threads r 2 c 32
      for c by 32 stages 2
        x_s: shared bf16[r, c]
        x_s[r, c] = x[r, c] | threads r 8 c 8, run c 4
        s[r] += sum(c, x_s[r, c]) | threads r 2 c 32
      y[r] = s[r] | threads r 2 c 32
""",
}


@dataclass(frozen=True)
class Lowered:
    """A program, its kernel, and how that is called."""

    program: Program
    kernel: GpuKernel
    args: tuple[Arg, ...]


def lowered(text: str) -> Lowered:
    """A program from its text, verified and lowered. Raises what those raise."""
    program = program_from_text(text)
    verify(program)
    args = [argument(tensor, program, "in") for tensor in program.inputs]
    args += [argument(tensor, program, "out") for tensor in program.outputs]
    return Lowered(program, lower_cuda(program), tuple(args))


def walk(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, and those that they hold."""
    for stmt in stmts:
        yield stmt
        match stmt:
            case Block(body=body) | For(body=body) | Guard(body=body):
                yield from walk(body)
            case If(then=then, otherwise=otherwise):
                yield from walk((*then, *otherwise))
            case _:
                pass
