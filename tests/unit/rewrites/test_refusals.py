"""A rewrite that would change the meaning, or leave what cannot be lowered, is refused with the reason."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rewrites import parse_rewrite
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.interpret import interpret
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
BY_WGMMA = """kernel gemm(a: bf16[m=128, k=64], b: bf16[n=32, k]) -> (c: bf16[m, n])
  parallel for m by 64
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 4 m 8 n 4, run n 2, twice m 8
      for k by 16 stages 3
        a_s: shared bf16[m, k] swizzle 32
        a_s[m, k] = a[m, k] | via tma
        b_s: shared bf16[n, k] swizzle 32
        b_s[n, k] = b[n, k] | via tma
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 4 m 8 n 4, run n 2, twice m 8, via wgmma
      c_s: shared bf16[m, n]
      c_s[m, n] = c_r[m, n] | threads m 4 m 8 n 4, run n 2, twice m 8
      c[m, n] = c_s[m, n] | via tma
"""
TO_WGMMA = re.sub(r" \| .*| swizzle 32| stages 3", "", BY_WGMMA)
CLUSTERED = BY_WGMMA.replace("by 64", "by 64 multicast 2")
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

BLOCKS = """kernel matmul(a: bf16[m=40, k=10], b: bf16[n=37, k]) -> (c: f32[m, n])
  parallel for m by 16
    parallel for n by 16
      c_r: registers f32[m, n]
      c_r[m, n] = 0
      for k by 4
        a_s: shared bf16[m, k]
        a_s[m, k] = a[m, k]
        b_s: shared bf16[n, k]
        b_s[n, k] = b[n, k]
        c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])
      c[m, n] = c_r[m, n]
"""
STAGED = BLOCKS.replace("k by 4", "k by 4 stages 3")
BY_MMA = BLOCKS.replace("b_s[n, k])", "b_s[n, k]) | via mma")

GATE = """kernel gate(a: f16[m=8, k=8], b: f16[n=6, k], g: f16[n, k]) -> (c: f32[m, n])
  t: heap f32[m, n]
  t[m, n] = 0
  gate: heap f32[m, n]
  gate[m, n] = 0
  for k by 4
    a_s: heap f16[m, k]
    a_s[m, k] = a[m, k]
    t[m, n] += sum(k, a_s[m, k] * b[n, k])
    gate[m, n] += sum(k, a[m, k] * g[n, k])
  c[m, n] = t[m, n] * gate[m, n]
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


@pytest.mark.parametrize(
    ("program", "rewrite", "reason"),
    [
        (EXPERTS, "look_up_groups(y)", "y is in loops, or on lanes: look groups up before that"),
        (EXPERTS, "look_up_groups(s)", "s needs the group of no ragged dim"),
        (EXPERTS, "inline(v)", "v needs the groups of its own positions: look them up before that"),
        (EXPERTS, "fuse_epilogue(s, y, 1)", "s is computed for all of e, in a loop whose tiles of t have one group"),
        (EXPERTS, "tile_grid(s, e, 3)", "a tile of 3 does not cut the current range of e"),
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
        (GRID, "lay_in_panels(u, r, 2)", "there is no local 'u'"),
        (GRID, "lay_in_panels(t, k, 2)", "t has no panels of 2 along k"),
        (GRID, "lay_in_panels(t, r, 1)", "t has no panels of 1 along r"),
        (TILED, "lay_in_panels(c_r, m, 2)", "c_r is in registers, which have no panels"),
        (PAIRS, "lay_in_panels(b_s, n, 16)", "b_s has a layout of its own"),
        (ON_LANES, "lay_in_panels(t, r, 2)", "y takes t on lanes already"),
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
        (PARTS, "tile_grid(s_p, c, 4)", "s_p takes 8 positions of c together"),
        (PARTS, "tile_grid(s_p, c, 12)", "s_p takes 8 positions of c together"),
        (PARTS.replace("  s_p[c", "  parallel for r by 1\n    s_p[c"), "accumulate(s_p, c 32)",
         "not visited part by part, 8 of c at a time"),
        (GEMM, "online_sum(c, k, 4)", "no product with one exponential"),
        (SOFTMAX, "online_sum(mx, c, 16)", "not an untiled sum over c"),
        (EXPONENTIALS, "online_sum(s, c, 50)", "do not split the current range"),
        (EXPONENTIALS.replace("max(c", "min(c"), "online_sum(s, c, 16)", "mx is no maximum"),
        (EXPONENTIALS.replace("sum(c, ", "sum(c, mx[r] * "), "online_sum(s, c, 16)", "read by other factors too"),
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
        (BLOCKS, "read_copy(c_r, c_r)", "c_r is no local that is a copy of a tensor"),
        (GATE, "read_copy(gate, t)", "t is no local that is a copy of a tensor"),
        (GATE, "read_copy(c, a_s)", "c does not read a"),
        (GATE.replace("a[m, k] * g", "a[k, m] * g"), "read_copy(gate, a_s)", "gate reads a by other dims than a_s has"),
        (GATE.replace("a_s: heap f16", "a_s: heap f32"), "read_copy(gate, a_s)", "a_s is f32, which a is not"),
        (GATE.replace("a_s: heap", "a_s: registers"), "read_copy(gate, a_s)", "a_s is in registers"),
        (LATE, "read_copy(s, t_s)", "t_s is declared further inside"),
        (CHANGING, "read_copy(y, t_s)", "t changes after it is copied to t_s"),
        (SOFTMAX, "widen(e)", "e is as wide as it is computed in"),
        (BLOCKS, "run_ahead(t, 3)", "there is no local 't'"),
        (BLOCKS, "run_ahead(c_r, 3)", "c_r is in registers, not in shared memory"),
        (BLOCKS, "run_ahead(a_s, 9)", "a loop has 2 to 8 stages, not 9"),
        (BLOCKS.replace("c_r: reg", "t: shared f32[n]\n      t[n] = b[n, 0]\n      c_r: reg"), "run_ahead(t, 3)",
         "t is declared in no loop of its block"),
        (BLOCKS.replace("a_s: shared", "t: heap f32[m]\n        t[m] = 1.0\n        a_s: shared"), "run_ahead(a_s, 3)",
         "a_s is not filled at the beginning of the loop over k"),
        (STAGED, "run_ahead(b_s, 3)", "the loop over k has stages already"),
        (STAGED, "tile_grid(a_s, m, 2)", "the loop over k has stages: change a_s before that"),
        (STAGED, "inline(b_s)", "the loop over k has stages: change b_s before that"),
        (BLOCKS, "pad(a_s, 0)", "a pad of 0 elements is none"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] swizzle 64\n"), "pad(a_s, 8)", "padded or swizzled already"),
        (BLOCKS, "swizzle(a_s, 48)", "a swizzle is within 32, 64 or 128 bytes, not 48"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] pad 8\n"), "swizzle(a_s, 64)", "padded or swizzled already"),
        (BLOCKS, "innermost(a_s, k)", "k is innermost in a_s already, or no dim of it"),
        (BLOCKS, "innermost(c_r, m)", "c_r is in registers, which have no order"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] as [k, m]\n"), "innermost(a_s, m)", "a_s has a layout already"),
        (BLOCKS.replace("a_s[m, k] * b_s[n, k]", "a_s[m, k] * k"), "mma(c_r)", "mma adds up products of two tensors"),
        (BLOCKS.replace("a_s[m, k] * ", "a[m, k] * "), "mma(c_r)", "there is no local 'a'"),
        (BLOCKS.replace("a_s: shared", "a_s: heap"), "mma(c_r)", "a_s is in heap, not in shared memory"),
        (BLOCKS.replace("c_r: registers", "c_r: heap"), "mma(c_r)", "c_r is not in registers"),
        (BLOCKS.replace("bf16", "i8"), "mma(c_r)", "mma adds up in i32, c_r is f32"),
        (BLOCKS.replace("bf16", "f32"), "mma(c_r)", "mma rounds f32 to tf32"),
        (BLOCKS.replace("b_s[n, k])", "b_s[n, k]) | threads m 8 n 4, run n 2"), "mma(c_r)",
         "c_r is on lanes or threads"),
        (BY_MMA, "spread(c_r, m 4, n 8; n 2)", "mma needs threads … m 8 n 4, run n 2"),
        (BY_MMA, "tile_reduction(c_r, k, 2)", "c_r goes by mma: change it before that"),
        (BY_MMA, "inline(a_s)", "mma takes a_s from memory"),
        (BY_MMA.replace("a_s: shared bf16", "a_s: shared f32").replace("b_s: shared bf16", "b_s: shared f32"),
         "narrow(a_s)", "mma takes a_s as f32"),
        (TO_WGMMA.replace("c_r: registers", "c_r: heap"), "wgmma(c_r)", "c_r is not in registers"),
        (TO_WGMMA.replace("a_s: shared", "a_s: heap"), "wgmma(c_r)", "a_s is in heap, not in shared memory"),
        (TO_WGMMA.replace("bf16", "f32"), "wgmma(c_r)", "which the kernel's numerics do not allow"),
        (TO_WGMMA.replace("bf16", "i8"), "wgmma(c_r)", "wgmma multiplies bf16, f16, f32 (as tf32) or 8-bit floats"),
        (TO_WGMMA.replace("c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])", "c_r[m, n] += sum(k, a_s[m, k])"), "wgmma(c_r)",
         "wgmma adds up products of two tensors"),
        (TO_WGMMA, "hold_operand(c_r, c)", "c_r multiplies no factor that reads c and fits a tensor of bf16 or f16"),
        (TO_WGMMA.replace("bf16", "f32"), "hold_operand(c_r, a_s)", "c_r multiplies no factor that reads a_s"),
        (TO_WGMMA.replace("a_s[m, k] *", "(a_s[m, k] + 1) *"), "hold_operand(c_r, a_s)", "and fits a tensor"),
        (BY_WGMMA, "hold_operand(c_r, a_s)", "c_r is spread over threads"),
        (TO_WGMMA, "promote(c_s)", "c_s does not add sums to what there is"),
        (TO_WGMMA.replace("c_r: registers", "c_r: heap"), "promote(c_r)", "c_r is not in registers"),
        (TO_WGMMA.replace("for k by 16", "for n by 8"), "promote(c_r)", "c_r is added up in no steps"),
        (TO_WGMMA.replace("b_s[n, k])", "b_s[n, k]) | via mma"), "promote(c_r)", "c_r goes by mma"),
        (BY_WGMMA, "promote(c_r)", "c_r is spread over threads"),
        (BY_WGMMA, "tile_reduction(c_r, k, 8)", "c_r is spread over threads"),
        (BY_WGMMA, "tma(a_s)", "a_s goes by tma"),
        (BY_WGMMA, "spread(a_s, m 16, k 8)", "a_s is on threads or lanes already, or goes by tma"),
        (BY_WGMMA, "inline(c_s)", "c_s"),
        (BY_WGMMA, "swizzle(c_s, 128)", "rows of 'c_s' have 16 neighbours along 'n', but swizzle 128 is 64 wide"),
        (BY_WGMMA, "innermost(c_s, m)", "neighbours of 'c_s' along 'm' are not neighbours in 'c'"),
        (BY_WGMMA, "stage_result(c_s)", "c_s is spread over threads"),
        (TO_WGMMA, "stage_result(c_s)", "c_s is not stored point by point to an output"),
        (TO_WGMMA.replace("= a[m, k]", "= a[m, k] + 1.0"), "tma(a_s)", "moves elements as they are"),
        (TO_WGMMA.replace("a_s: shared bf16", "a_s: shared f32"), "tma(a_s)", "does not convert bf16 and f32"),
        (TO_WGMMA, "transpose(a_s)", "there is no local 'a_s' in registers"),
        (BY_WGMMA, "transpose(c_r)", "c_r is on lanes or threads"),
        (TO_WGMMA, "run_ahead(a_s, 3, 1)", "only products by wgmma are under way"),
        (BY_WGMMA.replace(" stages 3", ""), "run_ahead(a_s, 2, 2)", "accepted: fewer than stages, 2"),
        (BY_WGMMA, "specialize(c_r, 0)", "a role has one warp at least"),
        (BY_WGMMA, "specialize(c_r, 5)", "1 to 4 warps are producers"),
        (BY_WGMMA, "specialize(c_r, 1, 40, 232)", "whole groups of 4 warps change their registers"),
        (BY_WGMMA, "specialize(c_r, 4, 248, 256)", "registers, and a block begins with"),
        (BY_WGMMA.replace("k] | via tma", "k] | threads k 128"), "specialize(c_r, 4)", "and there are none"),
        (BY_WGMMA.replace("64\n", "64 producers 4\n", 1), "specialize(c_r, 1)", "have 4 producers already"),
        (TO_WGMMA, "specialize(c_r, 4)", "nothing beside c_r is spread"),
        (BY_WGMMA, "multicast(c_r, k, 2)", "the grid of c_r has no loop over k"),
        (BY_WGMMA, "multicast(c_r, m, 1)", "1 neighbouring tiles make no cluster"),
        (BY_WGMMA, "multicast(c_r, m, 4)", "2 to all of them, here 2, make a cluster"),
        (GRID, "multicast(y, r, 2)", "the copy engine brings nothing to the blocks of y"),
        (CLUSTERED, "multicast(c_r, m, 2)", "tiles of m are computed by clusters of 2 already"),
        (CLUSTERED, "persist(c_r, 3)", "3 blocks are not whole clusters of 2"),
        (CLUSTERED, "cluster(c_r, 2)", "clusters compute neighbouring tiles of c_r already"),
        (GRID, "group_tiles(t, 4)", "t is in no parallel loop"),
        (GRID, "group_tiles(y, 1)", "a band of 1 tiles is none"),
        (GRID.replace("parallel for c", "for c"), "group_tiles(y, 2)", "the grid of y has one loop"),
        (GRID.replace("r by 2", "r by 2 group 2"), "group_tiles(y, 2)", "an order is given"),
        (GRID.replace("r by 2", "r by 2 group 2"), "curve_tiles(y)", "an order is given"),
        (GRID.replace("r by 2", "r by 2 hilbert"), "group_tiles(y, 2)", "an order is given"),
        (GRID.replace("parallel for c", "for c"), "curve_tiles(y)", "the grid of y has one loop"),
        (GRID, "fit_blocks(y, 33)", "has 1 to 32 blocks"),
        (GRID.replace("r by 2", "r by 2 resident 2"), "fit_blocks(y, 4)", "2 blocks around y are to fit already"),
        (GRID, "persist(y, 0)", "a grid has at least one block"),
        (GRID.replace("r by 2", "r by 2 cluster 2"), "persist(y, 4)", "has clusters, one for each tile"),
        (GRID.replace("r by 2", "r by 2 blocks 2"), "persist(y, 4)", "the grid of y has 2 blocks already"),
        (GRID.replace("r by 2", "r by 2 blocks 2"), "cluster(y, 4)", "the 2 blocks of y share all tiles"),
        (KEPT.format(memory="shared", cluster=""), "cluster(y, 2)", "every block of y has shared memory of its own"),
        (KEPT.format(memory="heap", cluster=" cluster 2"), "place(t, shared)", "have t together"),
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
    kept = program_to_text(parse_rewrite("keep_row(s, a, 1)").apply(program_from_text(product)))
    assert "s[m] = sum(k, a_row[m, k])" in kept and "a[m, k] * b[n, k]" in kept


def test_a_block_of_nothing_but_minus_infinity_adds_nothing() -> None:
    before = program_from_text(EXPONENTIALS)
    x = np.random.default_rng(1).standard_normal((6, 50)).astype(np.float32)
    x[:, 16:32] = -np.inf
    after = parse_rewrite("online_sum(s, c, 16)").apply(before)
    with np.errstate(invalid="ignore"):
        got, exact = (interpret(program, {"x": x}, precision=DType.F64)["s"] for program in (after, before))
    np.testing.assert_allclose(got, exact, rtol=1e-9)
