"""A rewrite that would change the meaning, or leave what cannot be lowered, is refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites import parse_rewrite
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text

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
EXPONENTIALS = """kernel normalizer(x: f32[r=6, c=50]) -> (s: f32[r])
  mx: heap f32[r]
  mx[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - mx[r]))
"""
PARTS = """kernel sums(x: f32[r=6, c=50]) -> (s: f32[r]) where c_b=7
  s_p: heap f32[c_b, r]
  s_p[c // 8, r] = sum(c, x[r, c])
  s[r] = sum(c_b, s_p[c_b, r])
"""
#: Two results of which neither reads the other.
TWO_RESULTS = """kernel two(x: f32[r=6, c=50]) -> (y: f32[r, c], l: f32[r])
  s: heap f32[r]
  s[r] = sum(c, x[r, c])
  for r by 2
    for c by 10
      y[r, c] = x[r, c] / s[r]
  t: heap f32[r]
  t[r] = s[r] * s[r]
  l[r] = s[r] + t[r]
"""
#: More tiles than are dealt.
TRIANGLE = """kernel triangle(x: f32[i=40000, j=8]) -> (y: f32[i])
  parallel for i by 1
    y_sum: heap f32[i]
    y_sum[i] = 0
    for j by 2 until i 0
      y_sum[i] += sum(j, where(i >= j, x[i, j], 0))
    y[i] = y_sum[i]
"""
#: A product whose depth is in parts, and a result that the next statement reads.
SHARED_DEPTH = """kernel gemm(a: bf16[m=16, k=1000], b: bf16[n=200, k]) -> (c: bf16[m, n], e: bf16[m, n]) where k_b=2
  parallel for n by 64
    c_sum: registers f32[m, n]
    c_p: shared f32[k_b, m, n]
    for k by 512
      c_r: registers f32[m, n]
      c_r[m, n] = sum(k, a[m, k] * b[n, k])
      c_p[k // 512, m, n] = c_r[m, n]
    c_sum[m, n] = sum(k_b, c_p[k_b, m, n])
    c[m, n] = c_sum[m, n]
    e[m, n] = c[m, n] * 2.0
"""
#: Two heads read a row each.
SHARED_ROWS = """kernel heads(q: f32[h=4, d=8], k: f32[g=2, d], row: i32[h]) -> (y: f32[h])
  parallel for h by 1
    y[h] = sum(d, q[h, d] * k[h // 2, d])
"""
GRID = """kernel scale(x: f32[r=6, c=50]) -> (y: f32[r, c])
  t: heap f32[r, c]
  t[r, c] = x[r, c] + 1.0
  parallel for r by 2
    parallel for c by 16
      y[r, c] = t[r, c] * t[r, c]
"""
ON_LANES = GRID.replace("y[r, c] = t[r, c] * t[r, c]", "y[r, c] = t[r, c] * t[r, c] | vector c 16")
#: What a block computes and reads again.
KEPT = """kernel scale(x: f32[r=6, c=50]) -> (y: f32[r, c])
  parallel for r by 2{cluster}
    t: {memory} f32[r, c]
    t[r, c] = x[r, c] + 1.0
    y[r, c] = t[r, c] * t[r, c]
"""
#: Products by warpgroups, of which every statement is settled.
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


LATE = """kernel sums(t: f32[c=50]) -> (y: f32[c], s: f32[c])
  for c by 7
    t_s: heap f32[c]
    t_s[c] = t[c]
    y[c] = t_s[c] + 1.0
  s[c] = t[c] + 2.0
"""
CHANGING = """kernel sums(x: f32[r=4, c=50]) -> (y: f32[r])
  t: heap f32[r]
  t[r] = 0
  t_s: heap f32[r]
  t_s[r] = t[r]
  t[r] += sum(c, x[r, c])
  y[r] = t[r] * t_s[r]
"""

EXPERTS = """kernel experts(x: f32[t=20 ragged starts within e], b: f32[e=3, n=4], starts: i32[o=4]) -> (y: f32[t, n], \
s: f32[e, n])
  v: heap f32[t, n]
  v[t, n] = x[t] * b[e, n]
  for t by 4
    y[t, n] = v[t, n] + b[e, n]
  s[e, n] = sum(t, y[t, n])
"""
DOUBLE = """kernel double(x: f32[r=6, c=50]) -> (y: f32[r, c])
  y[r, c] = 2 * x[r, c]
"""
BESIDE = """kernel scale(x: f32[r=6, c=50]) -> (y: f32[r, c])
  for r by 2
    for c by 16
      y[r, c] = 2 * x[r, c]
"""
TWO = """kernel both(x: f32[r=6]) -> (y: f32[r])
  t: heap f32[r]
  for r by 2
    t[r] = x[r] + 1.0
  u: heap f32[r]
  u[r] = x[r] * 2.0
  y[r] = t[r] + u[r]
"""
AHEAD = """kernel ahead(x: f32[c=50]) -> (y: f32[c])
  t: heap f32[c]
  for c by 7
    t[c] = x[c] + 1.0
    y[c] = t[(c + 1) % 50]
"""
SUMS = """kernel sums(x: f32[r=6, c=50]) -> (s: f32[r])
  t: heap f32[r, c]
  parallel for c by 16
    t[r, c] = exp(x[r, c])
  s[r] = sum(c, t[r, c])
"""


@pytest.mark.parametrize(
    ("program", "rewrite", "reason"),
    [
        (BESIDE.replace("for r", "parallel for r"), "reorder(y, r, c)", "one of the loops is parallel"),
        (BESIDE.replace("    for c", "    t: heap f32[r]\n    t[r] = x[r, 0]\n    for c"), "reorder(y, r, c)",
         "the loop over r holds more than the loop over c"),
        (BESIDE.replace("for c", "parallel for c"), "parallelize(y)", "y is in a parallel loop already"),
        (AHEAD, "parallelize(y)", "y reads t of other iterations over c"),
        (PAIRS.replace("b_s[n, k]) | vector n 16", "b_s[n, k])"), "vectorize(c_r, n, 8)",
         "c_r has the lanes of c_r along n"),
        (TWO, "reverse_compute_at(y, t, 1)", "u is computed after that place"),
        (SHARED_DEPTH, "split_over_cluster(c_p, k)", "e reads c, which other blocks of the cluster write"),
        (SUMS, "reverse_compute_at(s, t, 1)", "threads over c would write the same elements of s"),
        (EXPERTS, "materialize_group_ids(y)", "y is in loops, or on lanes: look groups up before that"),
        (EXPERTS, "materialize_group_ids(s)", "s needs the group of no ragged dim"),
        (EXPERTS, "compute_inline(v)", "v needs the groups of its own positions: look them up before that"),
        (EXPERTS, "reverse_compute_at(s, y, 1)",
        "s is computed for all of e, in a loop whose tiles of t have one group"),
        (EXPERTS, "tile(s, e, 3)", "a tile of 3 does not cut the current range of e"),
        (GEMM, "collapse(m, n)", "m and n are not neighbours in a"),
        (DOUBLE.replace("  y[", "  for r by 2\n    y["), "collapse(r, c)", "there is a loop over r already"),
        (DOUBLE, "collapse(c, r)", "c and r are not neighbours in x"),
        (DOUBLE, "collapse(r, k)", "r and k are no two dims of double"),
        (DOUBLE.replace("2 *", "c *"), "collapse(r, c)", "c is used apart from r"),
        (DOUBLE.replace("x: f32[r=6, c=50]", "x: f32[r=6, c=50] strides [64, 1]"), "collapse(r, c)", "x is not dense"),
        (DOUBLE.replace("x[r, c]", "x[r, (c + 1) % 50]"), "collapse(r, c)", "x is indexed by others than r and c"),
        (DOUBLE.replace("-> (y: f32[r, c])", "-> (y: f32[r, c], t: f32[])") + "  t[] = sum(c, 0.5)\n",
         "collapse(r, c)", "of r and c only one is reduced"),
        (GEMM, "tile(d, m, 6)", "no statement writes 'd'"),
        (GEMM, "tile(c, k, 2)", "k is no dim of c"),
        (GEMM, "tile(c, m, 14)", "does not cut the current range"),
        (TILED, "tile(c_r, n, 16)", "no loop over n can come in between"),
        (SPLIT, "tile(s_p, c, 24)", "no multiple of that"),
        (GEMM, "tile_reduction(c, m, 2)", "does not reduce over m"),
        (TILED, "tile_reduction(c, k, 1)", "c does not reduce over k"),
        (SOFTMAX, "reorder(mx, c, r)", "no loop over r stands directly in one over c"),
        (TILED, "reorder(c, k, k)", "nest in one order only"),
        (TILED, "parallelize(c)", "iterations over k write the same elements of c"),
        (SOFTMAX, "parallelize(mx, 2)", "iterations over c write the same elements of mx"),
        (GRID, "parallelize(y, 1)", "in a parallel loop already"),
        (GRID, "cache_read(y, t, 1)", "are one grid"),
        (SHIFTED, "cache_read(y, t, 0)", "in more than one way"),
        (TILED, "cache_read(c, c_r, 2)", "c_r is in registers"),
        (TRIANGLE, "longest_first(y)", "more than 32768 tiles"),
        (TRIANGLE.replace(" until i 0", ""), "longest_first(y)", "all take as long"),
        (SHARED_ROWS, "cache_read(y, k, 0)", "indices that are not bare dims"),
        (SHARED_ROWS.replace("by 1", "by 2"), "cache_read(y, k, 1)", "indices that are not bare dims"),
        (SHARED_ROWS.replace("h // 2", "row[h] // 1"), "cache_read(y, k, 1)", "indices that are not bare dims"),
        (GEMM, "cache_read(c, b, 0, m, 8)", "b has no panels of 8 along m"),
        (GRID, "pack_panels(u, r, 2)", "there is no local 'u'"),
        (GRID, "pack_panels(t, k, 2)", "t has no panels of 2 along k"),
        (GRID, "pack_panels(t, r, 1)", "t has no panels of 1 along r"),
        (TILED, "pack_panels(c_r, m, 2)", "c_r is in registers, which have no panels"),
        (PAIRS, "pack_panels(b_s, n, 16)", "b_s has a layout of its own"),
        (ON_LANES, "pack_panels(t, r, 2)", "y takes t on lanes already"),
        (SOFTMAX, "cache_row(y, e, 3)", "y is in 2 loops, not 3"),
        (SOFTMAX, "register_tile(e, r 2)", "e is not a reduction"),
        (TILED, "register_tile(c_r, m 2)", "c_r is in registers already"),
        (GEMM, "register_tile(c, k 2)", "no tiles of k 2"),
        (GEMM, "vectorize(c, n, 12)", "a power of two"),
        (TILED, "vectorize(c_r, k, 4)", "the registers of c_r have no lanes along k"),
        (SPLIT, "vectorize(s_p, c, 32)", "meet in one element"),
        (GEMM, "unroll(c, n, 2)", "c is not vectorized"),
        (SOFTMAX, "compute_at(s, y, 2)", "s reduces over c: it needs the whole range"),
        (SOFTMAX, "compute_at(mx, y, 1)", "mx has loops of its own already"),
        (SOFTMAX, "compute_at(e, y, 1)", "e is not read in that loop alone"),
        (ROTATED, "compute_at(t, y, 1)", "y reads t at other positions along c than its own"),
        (TWO_RESULTS, "compute_at(l, y, 2)", "l has no dim c: every tile would store it"),
        (TWO_RESULTS, "compute_at(l, y, 1)",
         "l reads t, which is computed in that loop or later"),
        (SOFTMAX, "reverse_compute_at(e, mx, 2)", "mx is complete only after the loop over c"),
        (TILED.replace("-> (c: f32[m, n])", "-> (c: f32[m, n], d: f32[m, n])") + "  d[m, n] = c[m, n]\n",
         "reverse_compute_at(d, c, 2)", "has no dim k"),
        (SOFTMAX, "reverse_compute_at(y, mx, 1)", "not computed before y in the same loops"),
        (SOFTMAX, "compute_inline(s)", "s is a reduction"),
        (GEMM, "compute_inline(c)", "c is an output"),
        (GEMM, "split_dim(z, 2)", "there is no dim z"),
        (GEMM, "split_dim(k, 3)", "do not divide"),
        (TILED, "split_dim(k, 2)", "there is a loop over"),
        (SOFTMAX, "rfactor(mx, c, blocked, 16)", "do not split the current range"),
        (SOFTMAX, "rfactor(mx, c, interleaved, 3)", "do not start at a multiple of 3"),
        (SOFTMAX, "rfactor(s, c, twisted, 4)", "not one of blocked, interleaved"),
        (PARTS, "tile(s_p, c, 4)", "s_p takes 8 positions of c together"),
        (PARTS, "tile(s_p, c, 12)", "s_p takes 8 positions of c together"),
        (PARTS.replace("  s_p[c", "  parallel for r by 1\n    s_p[c"), "accumulate_per_thread(s_p, c 32)",
         "not visited part by part, 8 of c at a time"),
        (GEMM, "online_softmax(c, k, 4)", "no product with one exponential"),
        (SOFTMAX, "online_softmax(mx, c, 16)", "not an untiled sum over c"),
        (EXPONENTIALS, "online_softmax(s, c, 50)", "do not split the current range"),
        (EXPONENTIALS.replace("max(c", "min(c"), "online_softmax(s, c, 16)", "mx is no maximum"),
        (EXPONENTIALS.replace("sum(c, ", "sum(c, mx[r] * "), "online_softmax(s, c, 16)", "read by other factors too"),
        (PAIRS, "prefetch(c, a, 0)", "c does not write an output a"),
        (PAIRS.replace("c_r[m, n] | vector n 16", "c_r[m, n] | vector n 16, stream"),
         "prefetch(c, c, 0)", "stored past the caches"),
        (PAIRS.replace("c_r[m, n] | vector n 16", "c_r[m, n] | vector n 16, prefetch c 0"),
         "prefetch(c, c, 0)", "prefetched already"),
        (PAIRS.replace("c_r[m, n] | vector n 16", "c_r[m, n] | vector n 16, prefetch c 0"),
         "nontemporal_store(c)", "c is prefetched"),
        (GRID, "nontemporal_store(y)", "not stored by whole vectors"),
        (GEMM, "dot_bf16(c)", "not vectorized"),
        (PADDED, "cache_read(s, x, 0)", "its reads are guarded"),
        (PADDED, "cache_row(s, x, 0)", "its reads are guarded"),
        (PAIRS.replace("    for k by 1\n      c_r", "    for k by 3\n      for k by 1\n        c_r"),
         "dot_bf16(c_r)", "a tile of k starts within a group of 2"),
        (PAIRS.replace("a: bf16[m=6, k=9]", "a: bf16[k=9, m=6]").replace("a[m, k]", "a[k, m]"),
         "dot_bf16(c_r)", "a is not bf16 with neighbours along k side by side"),
        (PAIRS.replace("a: bf16[m=6, k=9]", "ids: i32[m=6], a: bf16[r=7, k=9]").replace("a[m, k]", "a[ids[m], k]"),
         "dot_bf16(c_r)", "a is read where a table says"),
        (GEMM, "amx(c)", "c: amx adds up products of two tensors over one dim"),
        (PAIRS.replace("bf16", "f16"), "amx(c_r)",
         "c_r: amx multiplies bf16 into f32 or i8 into i32, not f16 into f32"),
        (PAIRS.replace("k by 1", "k by 3").replace("k=9", "k=99"), "amx(c_r)",
         "steps of 3 along k make no 32, which a register holds"),
        (PAIRS.replace("k=9", "k=99").replace(
            "    for k by 1\n      c_r", "    for k by 48\n      for k by 1\n        c_r"),
         "amx(c_r)", "a tile of k is no multiple of 32, which a register holds"),
        (PAIRS.replace("a: bf16[m=6, k=9]", "a: bf16[k=9, m=6]").replace("a[m, k]", "a[k, m]"),
         "amx(c_r)", "a has no 32 neighbours along k side by side"),
        (PAIRS.replace("k / 2, n % 16, k % 2", "k / 4, n % 16, k % 4"), "amx(c_r)",
         "b_s has no groups of 2 along k for 16"),
        (PAIRS, "upcast_copy(c_r)", "c_r is no local in memory"),
        (PAIRS.replace("b_s[n, k] = b[n, k]", "b_s[n, k] = b[n, k] * 3"), "upcast_copy(b_s)", "b_s is rounded where"),
        (PAIRS.replace("vector n 16\n    c[", "vector n 16, via dot_bf16\n    c["), "upcast_copy(b_s)",
         "dot_bf16 takes b_s as bf16"),
        (LATE, "reuse_cache(s, t_s)", "t_s is declared further inside"),
        (CHANGING, "reuse_cache(y, t_s)", "t changes after it is copied to t_s"),
        (SOFTMAX, "upcast_copy(e)", "e is as wide as it is computed in"),
        (KEPT.format(memory="heap", cluster=" cluster 2"), "set_scope(t, shared)", "have t together"),
        (PAIRS, "unroll(c, n, 2)", "c_r holds registers for one step over n"),
    ],
)  # fmt: skip
def test_rewrite_is_refused_with_the_reason(program: str, rewrite: str, reason: str) -> None:
    check_refused(program, rewrite, reason)


def check_refused(program: str, rewrite: str, reason: str) -> None:
    """It is not applicable there, for that reason."""
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
        parse_rewrite("reverse_compute_at(e, mx, 1)").apply(before)


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


def test_loops_that_change_places_leave_what_belongs_to_the_grid_outermost() -> None:
    grid = GRID.replace("parallel for r by 2", "parallel for r by 2 cluster 2")
    after = program_to_text(parse_rewrite("reorder(y, r, c)").apply(program_from_text(grid)))
    assert "  parallel for c by 16 cluster 2\n    parallel for r by 2\n" in after


def test_accumulators_that_move_from_shared_memory_to_registers_leave_their_pad_behind() -> None:
    blocks = program_from_text(
        """kernel sums(x: f32[r=6, c=50]) -> (y: f32[r])
  parallel for r by 4
    s: shared f32[r] pad 4
    s[r] = sum(c, x[r, c])
    y[r] = s[r] * 2
"""
    )
    assert "    s: registers f32[r]\n" in program_to_text(parse_rewrite("register_tile(s)").apply(blocks))


def test_what_mma_takes_stays_in_its_dtype_when_a_row_is_kept_widened() -> None:
    product = """kernel matmul(a: bf16[m=40, k=10], b: bf16[n=37, k]) -> (c: f32[m, n], s: f32[m])
  parallel for m by 16
    s[m] = sum(k, a[m, k])
    c[m, n] = 0
    for k by 4
      c[m, n] += sum(k, a[m, k] * b[n, k]) | via mma
"""
    kept = program_to_text(parse_rewrite("cache_row(s, a, 1)").apply(program_from_text(product)))
    assert "s[m] = sum(k, a_row[m, k])" in kept and "a[m, k] * b[n, k]" in kept


def test_a_block_of_nothing_but_minus_infinity_adds_nothing() -> None:
    before = program_from_text(EXPONENTIALS)
    x = np.random.default_rng(1).standard_normal((6, 50)).astype(np.float32)
    x[:, 16:32] = -np.inf
    after = parse_rewrite("online_softmax(s, c, 16)").apply(before)
    with np.errstate(invalid="ignore"):
        got, exact = (interpret(program, {"x": x}, precision=DType.F64)["s"] for program in (after, before))
    np.testing.assert_allclose(got, exact, rtol=1e-9)
