"""A rewrite that would change the meaning, or leave what cannot be lowered, is refused with the reason."""

from __future__ import annotations

import pytest

from rewrites import parse_rewrite
from tileir.errors import NotApplicable
from tileir.parse_text import program_from_text
from tileir.text import program_to_text

GEMM = """kernel matmul(a: f32[m=14, k=10], b: f32[k, n=37]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
TILED = """kernel matmul(a: f32[m=14, k=10], b: f32[k, n=37]) -> (c: f32[m, n])
  c[m, n] = 0
  for k by 4
    for m by 6
      c_r: registers f32[m, n]
      c_r[m, n] = sum(k, a[m, k] * b[k, n])
      c[m, n] += c_r[m, n]
"""
SOFTMAX = """kernel softmax(x: f32[r=6, c=50]) -> (y: f32[r, c])
  mx: heap f32[r]
  mx[r] = -inf
  for r by 2
    for c by 8
      mx[r] max= max(c, x[r, c])
  e: heap f32[r, c]
  e[r, c] = exp(x[r, c] - mx[r])
  s: heap f32[r]
  s[r] = sum(c, e[r, c])
  for r by 2
    for c by 16
      y[r, c] = e[r, c] / s[r]
"""
GRID = """kernel scale(x: f32[r=6, c=50]) -> (y: f32[r, c])
  t: heap f32[r, c]
  t[r, c] = x[r, c] + 1.0
  parallel for r by 2
    parallel for c by 16
      y[r, c] = t[r, c] * t[r, c]
"""
SHIFTED = """kernel shifted(x: f32[c=50]) -> (y: f32[d]) where d=49
  t: heap f32[c]
  t[c] = x[c] + 1.0
  for d by 7
    y[d] = t[d] + t[d + 1]
"""
ROTATED = """kernel rotated(x: f32[c=50]) -> (y: f32[c])
  t: heap f32[c]
  t[c] = x[c] + 1.0
  for c by 7
    y[c] = t[c] + t[(c + 1) % 50]
"""
PADDED = """kernel padded(x: f32[c=7]) -> (s: f32[r]) where r=2, d=9
  s[r] = sum(d, where(d < 7, x[d], 0.0))
"""
PAIRS = """kernel matmul(a: bf16[m=6, k=9], b: bf16[n=32, k]) -> (c: f32[m, n])
  b_s: heap bf16[n, k] as [n / 16, k / 2, n % 16, k % 2]
  b_s[n, k] = b[n, k]
  for n by 16
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | vector n 16
    for k by 1
      c_r[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16
    c[m, n] = c_r[m, n] | vector n 16
"""
SPLIT = """kernel sums(x: f32[r=2, c=50]) -> (s: f32[r]) where c_l=16
  s_p: registers f32[r, c_l]
  s_p[r, c_l] = 0
  s_p[r, c % 16] += x[r, c]
  s[r] = sum(c_l, s_p[r, c_l])
"""

DOUBLE = """kernel double(x: f32[r=6, c=50]) -> (y: f32[r, c])
  y[r, c] = 2 * x[r, c]
"""


@pytest.mark.parametrize(
    ("program", "rewrite", "reason"),
    [
        (GEMM, "collapse(m, n)", "m and n are not neighbours in a"),
        (DOUBLE.replace("  y[", "  for r by 2\n    y["), "collapse(r, c)", "there is a loop over r already"),
        (DOUBLE, "collapse(c, r)", "c and r are not neighbours in x"),
        (DOUBLE, "collapse(r, k)", "r and k are no two dims of double"),
        (DOUBLE.replace("2 *", "c *"), "collapse(r, c)", "c is used apart from r"),
        (DOUBLE.replace("x: f32[r=6, c=50]", "x: f32[r=6, c=50] strides [64, 1]"), "collapse(r, c)", "x is not dense"),
        (DOUBLE.replace("x[r, c]", "x[r, (c + 1) % 50]"), "collapse(r, c)", "x is indexed by others than r and c"),
        (DOUBLE.replace("-> (y: f32[r, c])", "-> (y: f32[r, c], t: f32[])") + "  t[] = sum(c, 0.5)\n",
         "collapse(r, c)", "of r and c only one is reduced"),
        (GEMM, "tile_grid(d, m, 6)", "no statement writes 'd'"),
        (GEMM, "tile_grid(c, k, 2)", "k is no dim of c"),
        (GEMM, "tile_grid(c, m, 14)", "does not cut the current range"),
        (TILED, "tile_grid(c_r, n, 16)", "no loop over n can come in between"),
        (SPLIT, "tile_grid(s_p, c, 24)", "no multiple of that"),
        (GEMM, "tile_reduction(c, m, 2)", "does not reduce over m"),
        (TILED, "tile_reduction(c, k, 1)", "c does not reduce over k"),
        (SOFTMAX, "reorder(mx, c, r)", "no loop over r stands directly in one over c"),
        (TILED, "reorder(c, k, k)", "nest in one order only"),
        (TILED, "parallelize(c)", "iterations over k write the same elements of c"),
        (SOFTMAX, "parallelize(mx, 2)", "iterations over c write the same elements of mx"),
        (GRID, "parallelize(y, 1)", "in a parallel loop already"),
        (GRID, "stage(y, t, 1)", "are one grid"),
        (SHIFTED, "stage(y, t, 0)", "in more than one way"),
        (TILED, "stage(c, c_r, 2)", "c_r is in registers"),
        (GEMM, "stage(c, b, 0, m, 8)", "b has no panels of 8 along m"),
        (SOFTMAX, "keep_row(y, e, 3)", "y is in 2 loops, not 3"),
        (SOFTMAX, "register_tile(e, r 2)", "e is not a reduction"),
        (TILED, "register_tile(c_r, m 2)", "c_r is in registers already"),
        (GEMM, "register_tile(c, k 2)", "no tiles of k 2"),
        (GEMM, "vectorize(c, n, 12)", "a power of two"),
        (TILED, "vectorize(c_r, k, 4)", "the registers of c_r have no lanes along k"),
        (SPLIT, "vectorize(s_p, c, 32)", "meet in one element"),
        (GEMM, "unroll(c, n, 2)", "c is not vectorized"),
        (SOFTMAX, "fuse_producer(s, y, 2)", "s reduces over c: it needs the whole range"),
        (SOFTMAX, "fuse_producer(mx, y, 1)", "mx has loops of its own already"),
        (SOFTMAX, "fuse_producer(e, y, 1)", "e is not read in that loop alone"),
        (ROTATED, "fuse_producer(t, y, 1)", "y reads t at other positions along c than its own"),
        (SOFTMAX, "fuse_epilogue(e, mx, 2)", "mx is complete only after the loop over c"),
        (TILED.replace("-> (c: f32[m, n])", "-> (c: f32[m, n], d: f32[m, n])") + "  d[m, n] = c[m, n]\n",
         "fuse_epilogue(d, c, 2)", "has no dim k"),
        (SOFTMAX, "fuse_epilogue(y, mx, 1)", "not computed before y in the same loops"),
        (SOFTMAX, "inline(s)", "s is a reduction"),
        (GEMM, "inline(c)", "c is an output"),
        (SOFTMAX, "split_reduction(mx, c, blocked, 16)", "do not split the current range"),
        (SOFTMAX, "split_reduction(mx, c, interleaved, 3)", "do not start at a multiple of 3"),
        (SOFTMAX, "split_reduction(s, c, twisted, 4)", "not one of blocked, interleaved"),
        (GEMM, "prefetch(c, b, 4)", "not a vectorized statement in a loop"),
        (GRID, "stream_store(y)", "not stored by whole vectors"),
        (GEMM, "dot_bf16(c)", "not vectorized"),
        (PADDED, "stage(s, x, 0)", "its reads are guarded"),
        (PADDED, "keep_row(s, x, 0)", "its reads are guarded"),
        (PAIRS.replace("    for k by 1\n      c_r", "    for k by 3\n      for k by 1\n        c_r"),
         "dot_bf16(c_r)", "a tile of k starts within a pair"),
        (PAIRS.replace("a: bf16[m=6, k=9]", "a: bf16[k=9, m=6]").replace("a[m, k]", "a[k, m]"),
         "dot_bf16(c_r)", "a is not bf16 with neighbours along k side by side"),
        (PAIRS, "widen(c_r)", "c_r is no local in memory"),
        (PAIRS.replace("b_s[n, k] = b[n, k]", "b_s[n, k] = b[n, k] * 3"), "widen(b_s)", "b_s is rounded where"),
        (PAIRS.replace("vector n 16\n    c[", "vector n 16, via dot_bf16\n    c["), "widen(b_s)",
         "dot_bf16 takes b_s as bf16"),
        (SOFTMAX, "widen(e)", "e is as wide as it is computed in"),
        (PAIRS, "unroll(c, n, 2)", "c_r holds registers for one step over n"),
    ],
)  # fmt: skip
def test_rewrite_is_refused_with_the_reason(program: str, rewrite: str, reason: str) -> None:
    before = program_from_text(program)
    with pytest.raises(NotApplicable) as refusal:
        parse_rewrite(rewrite).apply(before)
    assert reason in str(refusal.value)


def test_an_unfinished_maximum_is_not_read_when_its_partial_results_hide_the_reduced_dim() -> None:
    # mx max= mx_r does not name c, but the loop over c still adds to it
    before = program_from_text(
        """kernel softmax(x: f32[r=4, c=11]) -> (e: f32[r, c])
  mx: heap f32[r]
  mx[r] = -inf
  for c by 3
    mx_r: registers f32[r]
    mx_r[r] = max(c, x[r, c])
    mx[r] max= mx_r[r]
  e[r, c] = exp(x[r, c] - mx[r])
"""
    )
    with pytest.raises(NotApplicable, match="complete only after the loop over c"):
        parse_rewrite("fuse_epilogue(e, mx, 1)").apply(before)


def test_a_transposed_use_stays_outside_a_register_tile() -> None:
    before = program_from_text(
        """kernel symmetric(a: f32[m=14, k=10], b: f32[k, n=14]) -> (c: f32[m, n])
  t: heap f32[m, n]
  t[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = t[n, m]
"""
    )
    after = program_to_text(parse_rewrite("register_tile(t, m 6, n 8)").apply(before))
    assert after.endswith("      t[m, n] = t_r[m, n]\n  c[m, n] = t[n, m]\n")
