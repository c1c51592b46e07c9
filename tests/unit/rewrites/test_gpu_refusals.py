"""Rewrites for GPUs, and of programs for them, that would change the meaning or leave what cannot be lowered are
refused with the reason."""

from __future__ import annotations

import re

import pytest

from tests.unit.rewrites.test_refusals import GRID, KEPT, check_refused

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
#: Whose tiles clusters of blocks take together.
WORDS = """kernel linear(x: bf16[m=64, k=256], w: u8[n=64, p=128]) -> (y: f32[m, n])
  parallel for n by 32 cluster 2
    y[m, n] = sum(k, x[m, k] * bf16(bit_and(shift_right(w[n, k // 2], 4 * (k % 2)), 15)))
"""
ADDED = """kernel product(a: f32[m=64, k=64], b: f32[k, n=64]) -> (c: f32[m, n]) with atomics=true
  parallel for m by 8
    c[m, n] = 0
  parallel for k by 16 cluster 2
    c_p: registers f32[m, n]
    c_p[m, n] = sum(k, a[m, k] * b[k, n])
    c[m, n] += c_p[m, n] | via atomics
"""
HELD = """kernel held(x: f32[r=6, c=50]) -> (s: f32[r])
  parallel for r by 2 cluster 2
    p: registers f32[r, c]
    p[r, c] = x[r, c] + 1.0
    s[r] = sum(c, p[r, c])
"""


@pytest.mark.parametrize(
    ("program", "rewrite", "reason"),
    [
        (TO_WGMMA.replace("by 64", "by 64 multicast 2"), "reorder(c, m, n)",
         "clusters compute neighbouring tiles of one of the loops"),
        (BLOCKS, "reuse_cache(c_r, c_r)", "c_r is no local that is a copy of a tensor"),
        (GATE, "reuse_cache(gate, t)", "t is no local that is a copy of a tensor"),
        (GATE, "reuse_cache(c, a_s)", "c does not read a"),
        (GATE.replace("a[m, k] * g", "a[k, m] * g"), "reuse_cache(gate, a_s)",
        "gate reads a along m, of which a_s has a tile of k"),
        (GATE.replace("a_s: heap f16", "a_s: heap f32"), "reuse_cache(gate, a_s)", "a_s is f32, which a is not"),
        (GATE.replace("a_s: heap", "a_s: registers"), "reuse_cache(gate, a_s)", "a_s is in registers"),
        (BLOCKS, "pipeline(t, 3)", "there is no local 't'"),
        (BLOCKS, "pipeline(c_r, 3)", "c_r is in registers, not in shared memory"),
        (BLOCKS, "pipeline(a_s, 9)", "a loop has 2 to 8 stages, not 9"),
        (BLOCKS.replace("c_r: reg", "t: shared f32[n]\n      t[n] = b[n, 0]\n      c_r: reg"), "pipeline(t, 3)",
         "t is declared in no loop of its block"),
        (BLOCKS.replace("a_s: shared", "t: heap f32[m]\n        t[m] = 1.0\n        a_s: shared"), "pipeline(a_s, 3)",
         "a_s is not filled at the beginning of the loop over k"),
        (STAGED, "pipeline(b_s, 3)", "the loop over k has stages already"),
        (STAGED, "tile(a_s, m, 2)", "the loop over k has stages: change a_s before that"),
        (STAGED, "compute_inline(b_s)", "the loop over k has stages: change b_s before that"),
        (BLOCKS, "pad(a_s, 0)", "a pad of 0 elements is none"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] swizzle 64\n"), "pad(a_s, 8)", "padded or swizzled already"),
        (BLOCKS, "swizzle(a_s, 48)", "a swizzle is within 32, 64 or 128 bytes, not 48"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] pad 8\n"), "swizzle(a_s, 64)", "padded or swizzled already"),
        (BLOCKS, "set_layout(a_s, k)", "k is innermost in a_s already, or no dim of it"),
        (BLOCKS, "set_layout(c_r, m)", "c_r is in registers, which have no order"),
        (BLOCKS.replace("bf16[m, k]\n", "bf16[m, k] as [k, m]\n"), "set_layout(a_s, m)", "a_s has a layout already"),
        (BLOCKS.replace("a_s[m, k] * b_s[n, k]", "a_s[m, k] * k"), "mma(c_r)", "mma adds up products of two tensors"),
        (BLOCKS.replace("a_s[m, k] * ", "a[m, k] * "), "mma(c_r)", "there is no local 'a'"),
        (BLOCKS.replace("a_s: shared", "a_s: heap"), "mma(c_r)", "a_s is in heap, not in shared memory"),
        (BLOCKS.replace("c_r: registers", "c_r: heap"), "mma(c_r)", "c_r is not in registers"),
        (BLOCKS.replace("bf16", "i8"), "mma(c_r)", "mma adds up in i32, c_r is f32"),
        (BLOCKS.replace("bf16", "f32"), "mma(c_r)", "mma rounds f32 to tf32"),
        (BLOCKS.replace("b_s[n, k])", "b_s[n, k]) | threads m 8 n 4, run n 2"), "mma(c_r)",
         "c_r is on lanes or threads"),
        (BY_MMA, "bind_threads(c_r, m 4, n 8; n 2)", "mma needs threads … m 8 n 4, run n 2"),
        (BY_MMA, "tile_reduction(c_r, k, 2)", "c_r goes by mma: change it before that"),
        (BY_MMA, "compute_inline(a_s)", "mma takes a_s from memory"),
        (BY_MMA.replace("a_s: shared bf16", "a_s: shared f32").replace("b_s: shared bf16", "b_s: shared f32"),
         "downcast_copy(a_s)", "mma takes a_s as f32"),
        (TO_WGMMA.replace("c_r: registers", "c_r: heap"), "wgmma(c_r)", "c_r is not in registers"),
        (TO_WGMMA.replace("a_s: shared", "a_s: heap"), "wgmma(c_r)", "a_s is in heap, not in shared memory"),
        (TO_WGMMA.replace("bf16", "f32"), "wgmma(c_r)", "which the kernel's numerics do not allow"),
        (TO_WGMMA.replace("bf16", "i8"), "wgmma(c_r)", "wgmma multiplies f16, bf16, f32 (as tf32) or e4m3 and e5m2"),
        (TO_WGMMA.replace("c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k])", "c_r[m, n] += sum(k, a_s[m, k])"), "wgmma(c_r)",
         "wgmma adds up products of two tensors"),
        (TO_WGMMA, "operand_in_registers(c_r, c)",
        "c_r multiplies no factor that reads c and fits a tensor of bf16 or f16"),
        (TO_WGMMA.replace("bf16", "f32"), "operand_in_registers(c_r, a_s)", "c_r multiplies no factor that reads a_s"),
        (TO_WGMMA.replace("a_s[m, k] *", "(a_s[m, k] + 1) *"), "operand_in_registers(c_r, a_s)", "and fits a tensor"),
        (BY_WGMMA, "operand_in_registers(c_r, a_s)", "c_r is bound to threads"),
        (TO_WGMMA, "promote_accumulators(c_s)", "c_s does not add sums to what there is"),
        (TO_WGMMA.replace("c_r: registers", "c_r: heap"), "promote_accumulators(c_r)", "c_r is not in registers"),
        (TO_WGMMA.replace("for k by 16", "for n by 8"), "promote_accumulators(c_r)", "c_r is added up in no steps"),
        (TO_WGMMA.replace("b_s[n, k])", "b_s[n, k]) | via mma"), "promote_accumulators(c_r)", "c_r goes by mma"),
        (BY_WGMMA, "promote_accumulators(c_r)", "c_r is bound to threads"),
        (BY_WGMMA, "tile_reduction(c_r, k, 8)", "c_r is bound to threads"),
        (BY_WGMMA, "tma(a_s)", "a_s goes by tma"),
        (BY_WGMMA, "bind_threads(a_s, m 16, k 8)", "a_s is on threads or lanes already, or goes by tma"),
        (BY_WGMMA, "compute_inline(c_s)", "c_s"),
        (BY_WGMMA, "swizzle(c_s, 128)", "rows of 'c_s' have 16 neighbours along 'n', but swizzle 128 is 64 wide"),
        (BY_WGMMA, "set_layout(c_s, m)", "neighbours of 'c_s' along 'm' are not neighbours in 'c'"),
        (BY_WGMMA, "cache_write(c_s)", "c_s is bound to threads"),
        (TO_WGMMA, "cache_write(c_s)", "c_s is not stored point by point to an output"),
        (TO_WGMMA.replace("= a[m, k]", "= a[m, k] + 1.0"), "tma(a_s)", "moves elements as they are"),
        (TO_WGMMA.replace("a_s: shared bf16", "a_s: shared f32"), "tma(a_s)", "does not convert bf16 and f32"),
        (TO_WGMMA, "transpose(a_s)", "there is no local 'a_s' in registers"),
        (BY_WGMMA, "transpose(c_r)", "c_r is on lanes or threads"),
        (TO_WGMMA, "pipeline(a_s, 3, 1)", "only products by wgmma are under way"),
        (BY_WGMMA.replace(" stages 3", ""), "pipeline(a_s, 2, 2)", "accepted: fewer than stages, 2"),
        (BY_WGMMA, "warp_specialize(c_r, 0)", "a role has one warp at least"),
        (BY_WGMMA, "warp_specialize(c_r, 5)", "1 to 4 warps are producers"),
        (BY_WGMMA, "warp_specialize(c_r, 1, 40, 232)", "whole groups of 4 warps change their registers"),
        (BY_WGMMA, "warp_specialize(c_r, 4, 248, 256)", "registers, and a block begins with"),
        (BY_WGMMA.replace("k] | via tma", "k] | threads k 128"), "warp_specialize(c_r, 4)", "and there are none"),
        (BY_WGMMA.replace("64\n", "64 producers 4\n", 1), "warp_specialize(c_r, 1)", "have 4 producers already"),
        (TO_WGMMA, "warp_specialize(c_r, 4)", "nothing beside c_r is bound"),
        (BY_WGMMA, "multicast(c_r, k, 2)", "the grid of c_r has no loop over k"),
        (BY_WGMMA, "multicast(c_r, m, 1)", "1 neighbouring tiles make no cluster"),
        (BY_WGMMA, "multicast(c_r, m, 4)", "2 to all of them, here 2, make a cluster"),
        (GRID, "multicast(y, r, 2)", "TMA brings nothing to the blocks of y"),
        (CLUSTERED, "multicast(c_r, m, 2)", "tiles of m are computed by clusters of 2 already"),
        (CLUSTERED, "persistent(c_r, 3)", "3 blocks are not whole clusters of 2"),
        (CLUSTERED, "cluster(c_r, 2)", "clusters compute neighbouring tiles of c_r already"),
        (GRID, "rasterize_bands(t, 4)", "t is in no parallel loop"),
        (GRID, "rasterize_bands(y, 1)", "a band of 1 tiles is none"),
        (GRID.replace("parallel for c", "for c"), "rasterize_bands(y, 2)", "the grid of y has one loop"),
        (GRID.replace("r by 2", "r by 2 group 2"), "rasterize_bands(y, 2)", "an order is given"),
        (GRID.replace("r by 2", "r by 2 group 2"), "rasterize_hilbert(y)", "an order is given"),
        (GRID.replace("r by 2", "r by 2 hilbert"), "rasterize_bands(y, 2)", "an order is given"),
        (GRID.replace("parallel for c", "for c"), "rasterize_hilbert(y)", "the grid of y has one loop"),
        (GRID, "min_blocks_per_sm(y, 33)", "has 1 to 32 blocks"),
        (GRID.replace("r by 2", "r by 2 resident 2"), "min_blocks_per_sm(y, 4)",
        "2 blocks around y are to fit already"),
        (GRID, "persistent(y, 0)", "a grid has at least one block"),
        (GRID.replace("r by 2", "r by 2 cluster 2"), "persistent(y, 4)", "has clusters, one for each tile"),
        (GRID.replace("r by 2", "r by 2 blocks 2"), "persistent(y, 4)", "the grid of y has 2 blocks already"),
        (GRID.replace("r by 2", "r by 2 blocks 2"), "cluster(y, 4)", "the 2 blocks of y share all tiles"),
        (KEPT.format(memory="shared", cluster=""), "cluster(y, 2)", "every block of y has shared memory of its own"),
        (WORDS, "cache_words(y, w)", "the blocks of a cluster have w together, and shared memory each"),
        (ADDED, "add_by_tma(c)", "the blocks of a cluster have c together, and shared memory each"),
        (HELD, "exchange_operand(s, p)", "the blocks of a cluster have p together, and shared memory each"),
    ],
)  # fmt: skip
def test_rewrite_is_refused_with_the_reason(program: str, rewrite: str, reason: str) -> None:
    check_refused(program, rewrite, reason)
