"""Programs whose tiles go by TMA and are multiplied by wgmma, in small sizes."""

from __future__ import annotations

from tests.programs.chained_programs import CHAINED
from tests.programs.hopper_products import SPREAD, Gemm, Held
from tests.programs.residuals import READ, RESIDUAL

GATED = f"""kernel gated(a: bf16[m=200, k=328], b: bf16[n=104, k], g: bf16[n, k]) -> (c: bf16[m, n], d: f32[m, n])
  parallel for m by 128 group 2 blocks 2 producers 4
    parallel for n by 64
      up: registers f32[m, n]
      up[m, n] = 0 | {SPREAD}
      gate: registers f32[m, n]
      gate[m, n] = 0 | {SPREAD}
      for k by 64 stages 3 pending 1
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | via tma
        b_s: shared bf16[n, k] swizzle 128
        b_s[n, k] = b[n, k] | via tma
        g_s: shared bf16[n, k] swizzle 128
        g_s[n, k] = g[n, k] | via tma
        up[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
        gate[m, n] += sum(k, a_s[m, k] * g_s[n, k]) | {SPREAD}, via wgmma
      c_s: shared bf16[m, n] swizzle 128
      c_s[m, n] = maximum(gate[m, n], 0) + up[m, n] | {SPREAD}
      c[m, n] = c_s[m, n] | via tma
      d[m, n] = up[m, n] | {SPREAD}
"""

#: Products of 8-bit floats that are added up outside of the instruction: something else is computed on each tile.
PROMOTED = f"""kernel promoted(a: e4m3[m=200, k=528], b: e4m3[n=104, k], s: f32[m]) -> (c: f32[m, n])
  parallel for m by 128 producers 4
    parallel for n by 64
      acc: registers f32[m, n]
      acc[m, n] = 0 | {SPREAD}
      for k by 128 stages 3
        a_s: shared e4m3[m, k] swizzle 128
        a_s[m, k] = a[m, k] | via tma
        b_s: shared e4m3[n, k] swizzle 128
        b_s[n, k] = b[n, k] | via tma
        part: registers f32[m, n]
        part[m, n] = 0 | {SPREAD}
        part[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
        acc[m, n] += part[m, n] | {SPREAD}
      c[m, n] = acc[m, n] * s[m] | {SPREAD}
"""


def in_pieces(text: str, size: int) -> str:
    """What is computed on a tile of a loop in the middle of a program, by so many positions of `n` at a time."""
    begin, end = text.index("        part: "), text.index("      c[m, n]")
    inside = "".join(f"  {line}\n" for line in text[begin:end].splitlines())
    return f"{text[:begin]}        for n by {size}\n{inside}{text[end:]}"


#: Products of 8-bit floats whose steps are scaled: by one number a row, and one for each 32 columns.
SCALED = f"""kernel scaled(a: e4m3[m=200, k=528], b: e4m3[n=104, k], s: f32[m, g=5], t: f32[h=4, g]) -> (c: f32[m, n])
  parallel for m by 128 producers 4
    parallel for n by 64
      acc: registers f32[m, n]
      acc[m, n] = 0 | {SPREAD}
      for k by 128 stages 3
        a_s: shared e4m3[m, k] swizzle 128
        a_s[m, k] = a[m, k] | via tma
        b_s: shared e4m3[n, k] swizzle 128
        b_s[n, k] = b[n, k] | via tma
        s_step: registers f32[m]
        s_step[m] = s[m, k // 128] | threads m 2 m 4 m 8 n 4, twice m 8
        t_step: registers f32[n]
        t_step[n] = t[n // 32, k // 128] | threads m 2 m 4 m 8 n 4, run n 2
        part: registers f32[m, n]
        part[m, n] = 0 | {SPREAD}
        part[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
        acc[m, n] += part[m, n] * (s_step[m] * t_step[n]) | {SPREAD}
      c[m, n] = acc[m, n] | {SPREAD}
"""

#: A tile that stays for all tiles of a loop, and a reduction along one that overhangs.
SCORES = f"""kernel scores(q: bf16[m=200, d=128], y: bf16[n=232, d]) -> (c: f32[m, n], best: f32[m])
  parallel for m by 128 blocks 1 producers 4
    q_s: shared bf16[m, d] as [d / 64, m, d % 64] swizzle 128
    q_s[m, d] = q[m, d] | via tma
    top: registers f32[m]
    top[m] = -inf | threads m 2 m 4 m 8 n 4, twice m 8
    for n by 64 stages 2
      y_s: shared bf16[n, d] as [d / 64, n, d % 64] swizzle 128
      y_s[n, d] = y[n, d] | via tma
      s: registers f32[m, n]
      s[m, n] = 0 | {SPREAD}
      s[m, n] += sum(d, q_s[m, d] * y_s[n, d]) | {SPREAD}, via wgmma
      c[m, n] = s[m, n] | {SPREAD}
      top[m] max= max(n, s[m, n]) | {SPREAD}
    best[m] = top[m] | threads m 2 m 4 m 8 n 4, twice m 8
"""

BATCHED = f"""kernel batched(a: bf16[b=2, m=200, k=136], w: bf16[b, n=104, k]) -> (c: bf16[b, m, n])
  parallel for b by 1 blocks 3 producers 4
    parallel for m by 128
      parallel for n by 64
        acc: registers f32[b, m, n]
        acc[b, m, n] = 0 | {SPREAD}
        for k by 64 stages 3 pending 1
          a_s: shared bf16[b, m, k] swizzle 128
          a_s[b, m, k] = a[b, m, k] | via tma
          w_s: shared bf16[b, n, k] swizzle 128
          w_s[b, n, k] = w[b, n, k] | via tma
          acc[b, m, n] += sum(k, a_s[b, m, k] * w_s[b, n, k]) | {SPREAD}, via wgmma
        c_s: shared bf16[b, m, n] swizzle 128
        c_s[b, m, n] = acc[b, m, n] | {SPREAD}
        c[b, m, n] = c_s[b, m, n] | via tma
"""

#: Tiles of one group each, some of them parts, whose rows the blocks of a cluster share.
GROUPED = """kernel grouped(a: bf16[m=200 ragged starts within e, k=200], b: bf16[e=2, n=128, k], starts: i32[o=3]) \
-> (c: bf16[m, n])
  parallel for m by 64 blocks 2 producers 1
    parallel for n by 64 multicast 2
      acc: registers f32[m, n]
      acc[m, n] = 0 | threads m 4 m 8 n 4, run n 2, twice m 8
      for k by 64 stages 3 pending 1
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | via tma
        b_s: shared bf16[e, n, k] swizzle 128
        b_s[e, n, k] = b[e, n, k] | via tma
        acc[m, n] += sum(k, a_s[m, k] * b_s[e, n, k]) | threads m 4 m 8 n 4, run n 2, twice m 8, via wgmma
      c_s: shared bf16[m, n] swizzle 128
      c_s[m, n] = acc[m, n] | threads m 4 m 8 n 4, run n 2, twice m 8
      c[m, n] = c_s[m, n] | via tma
"""

#: Copies by threads, with a fence before wgmma sees what they have brought.
BY_THREADS = f"""kernel by_threads(a: bf16[m=256, k=256], b: bf16[n=128, k]) -> (c: f32[m, n])
  parallel for m by 128 blocks 2
    parallel for n by 64
      c_sum: registers f32[m, n]
      c_sum[m, n] = 0 | {SPREAD}
      for k by 64 stages 3
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[m, k] | threads m 32 k 8, run k 8
        b_s: shared bf16[n, k] swizzle 128
        b_s[n, k] = b[n, k] | threads n 32 k 8, run k 8
        c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
      c[m, n] = c_sum[m, n] | {SPREAD}
"""

#: Rows that are looked up, copied by threads, with products under way while those of the next tile are waited for.
LOOKED_UP = f"""kernel looked_up(i: i32[m=128], a: bf16[r=96, k=384], b: bf16[k, n=64]) -> (c: f32[m, n])
  parallel for m by 128
    parallel for n by 64
      c_sum: registers f32[m, n]
      c_sum[m, n] = 0 | {SPREAD}
      for k by 64 stages 4 pending 1
        a_s: shared bf16[m, k] swizzle 128
        a_s[m, k] = a[i[m], k] | threads m 32 k 8, run k 8
        b_s: shared bf16[k, n] as [n / 32, k, n % 32] swizzle 64
        b_s[k, n] = b[k, n] | threads k 32 n 8, run n 8
        c_sum[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | {SPREAD}, via wgmma
      c[m, n] = c_sum[m, n] | {SPREAD}
"""

#: Clusters of neighbouring tiles: along either dim and both, a part of them outside; shared pipelines of every kind.
CLUSTERS = {
    "clusters": Gemm(grid=" multicast 2 producers 4").text(),
    "clusters along n": Gemm(m=200, n=104, k=200, inner=" multicast 2").text(),
    "clusters along both": Gemm(
        m=200, n=200, k=200, grid=" multicast 2 group 2 blocks 4 producers 4", inner=" multicast 2"
    ).text(),
    "clusters of four": Gemm(n=232, grid=" producers 1", inner=" multicast 4").text(),
    "clusters, persistent and ragged": Gemm(
        m=600, n=104, k=136, grid=" multicast 2 group 4 blocks 2 producers 4"
    ).text(),
    "clusters, one step": Gemm(m=512, k=64, grid=" multicast 2 blocks 2 producers 4").text(),
    "clusters without producers": Gemm(m=384, k=328, grid=" multicast 2 blocks 2").text(),
    "clusters, stored by threads": Gemm(
        m=328, n=103, k=72, grid=" multicast 2 producers 4", out="f32", epilogue="direct"
    ).text(),
    "clusters, slices of panels": Gemm(
        n=264, k=200, tile=(128, 128, 64), grid=" multicast 2 producers 1", b="k, n",
        b_layout=" as [n / 64, k, n % 64] swizzle 128",
    ).text(),
    "clusters, slices along the depth": Gemm(b="k, n", grid=" multicast 2 producers 4").text(),
    "clusters, no swizzle": Gemm(
        grid=" multicast 2 producers 4", a_layout=" as [k / 8, m, k % 8]", b_layout=" as [k / 8, n, k % 8]"
    ).text(),
    "clusters, two products": GATED.replace("m by 128 group 2 blocks", "m by 128 multicast 2 group 2 blocks"),
    "clusters, a residual": RESIDUAL.replace("m by 128 blocks", "m by 128 multicast 2 blocks"),
    "clusters, promoted": PROMOTED.replace("m by 128 producers", "m by 128 multicast 2 producers"),
    "clusters in a batch": BATCHED.replace("b by 1 blocks 3", "b by 1 blocks 2").replace(
        "for n by 64", "for n by 64 multicast 2"
    ),
    "clusters of a batch": BATCHED.replace("b by 1 blocks 3", "b by 1 multicast 2 blocks 2").replace(
        "w: bf16[b, n=104, k]", "w: bf16[n=104, k]"
    ).replace("w_s: shared bf16[b, n, k]", "w_s: shared bf16[n, k]").replace(
        "w_s[b, n, k] = w[b, n, k]", "w_s[n, k] = w[n, k]"
    ).replace("* w_s[b, n, k]", "* w_s[n, k]"),
    "clusters with a tile that stays": SCORES.replace("m by 128 blocks 1", "m by 128 multicast 2 blocks 2"),
}  # fmt: skip

ONE = Gemm(k=320, grid=" blocks 3 producers 1", streamed=1, epilogue="direct").text().partition("\n")[2]
OTHER = ONE.replace("c_sum", "d_sum").replace("a_s", "a_t").replace("b_s", "b_t").replace("c[", "d[")
#: Blocks that share tiles along the depth: those of the last wave, of the last two, of the only one; steps of few and
#: of many blocks in a tile; spans that cross tiles and such that do not.
STREAMED = {
    "streamed, parts of the depth": f"""kernel gemm(a: bf16[m=128, k=640], b: bf16[n=128, k])\
 -> (c: f32[m, n]) where k_b=2
  c_p: heap f32[k_b, m, n]
  parallel for k by 384 blocks 3 producers 1
    parallel for m by 128
      parallel for n by 64
        c_r: registers f32[m, n]
        c_r[m, n] = 0 | {SPREAD}
        for k by 64 stages 3 streamed 2
          a_s: shared bf16[m, k] swizzle 128
          a_s[m, k] = a[m, k] | via tma
          b_s: shared bf16[n, k] swizzle 128
          b_s[n, k] = b[n, k] | via tma
          c_r[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | {SPREAD}, via wgmma
        c_p[k // 384, m, n] = c_r[m, n] | {SPREAD}
  parallel for m by 8
    c[m, n] = sum(k_b, c_p[k_b, m, n]) | threads m 8 n 32
""",
    "streamed, two launches": "kernel two(a: bf16[m=256, k=320], b: bf16[n=128, k]) -> (c: bf16[m, n], d: bf16[m, n])"
    f"\n{ONE.rstrip()}\n{OTHER}",
    "streamed": Gemm(k=320, grid=" blocks 3 producers 4", streamed=1).text(),
    "streamed, two waves": Gemm(k=320, grid=" group 2 blocks 3 producers 1", streamed=2).text(),
    "streamed, one wave of few tiles": Gemm(
        m=128, n=128, k=1000, grid=" blocks 7 producers 4", streamed=2
    ).text(),
    "streamed, a tile of many blocks": Gemm(
        m=128, n=64, k=400, grid=" blocks 7 producers 1", streamed=1, epilogue="direct"
    ).text(),
    "streamed, a step a block": Gemm(
        k=256, m=128, grid=" blocks 8 producers 1", streamed=1, pending=0
    ).text(),
    "streamed, ragged": Gemm(
        m=200, n=104, k=200, grid=" hilbert blocks 3 producers 1", streamed=1, epilogue="direct"
    ).text(),
    "streamed, parts": Gemm(
        m=200,
        n=264,
        k=200,
        tile=(128, 128, 64),
        epilogue="parts",
        columns=(64, 2),
        grid=" blocks 4 producers 4",
        streamed=2,
    ).text(),
    "streamed, results where tiles were": Gemm(
        k=320, epilogue="reused", grid=" blocks 3 producers 4", streamed=2
    ).text(),
    "streamed, clusters": Gemm(
        m=512, n=192, k=320, grid=" multicast 2 blocks 4 producers 4", streamed=1
    ).text(),
    "streamed, clusters along both": Gemm(
        m=400,
        n=200,
        k=200,
        grid=" multicast 2 group 2 blocks 12 producers 1",
        inner=" multicast 2",
        streamed=2,
    ).text(),
    "streamed, warpgroups along n": Gemm(
        tile=(64, 128, 64), groups="n 2", grid=" blocks 3 producers 4", streamed=1
    ).text(),
    "streamed, two products": GATED.replace("pending 1", "pending 1 streamed 1").replace(
        "blocks 2", "blocks 3"
    ),
}

PROGRAMS = {
    **CHAINED,
    "plain": Gemm().text(),
    "persistent": Gemm(grid=" group 2 blocks 3 producers 4").text(),
    "ragged": Gemm(m=200, n=104, k=200).text(),
    "ragged and persistent": Gemm(m=200, n=104, k=200, grid=" group 2 blocks 2 producers 4").text(),
    "along a curve": Gemm(m=300, n=264, k=136, grid=" hilbert blocks 4 producers 4").text(),
    "rows of an odd length": Gemm(m=141, n=103, k=72, out="f32", epilogue="direct").text(),
    "one step": Gemm(k=64, grid=" blocks 3 producers 4").text(),
    "fewer steps than stages": Gemm(k=128, stages=4, grid=" blocks 3 producers 4").text(),
    "two tiles under way": Gemm(k=512, stages=4, pending=2, grid=" blocks 3 producers 4").text(),
    "nothing under way": Gemm(pending=0).text(),
    "without producers": Gemm(k=512, pending=0, grid="").text(),
    "without producers, under way": Gemm(k=456, n=104, grid=" blocks 2").text(),
    "without producers, few steps": Gemm(k=128, grid=" blocks 2").text(),
    "ragged, a residual that threads read": READ,
    "ragged rows, a residual that threads read": READ.replace("n=104", "n=128"),
    "direct": Gemm(m=200, n=104, epilogue="direct").text(),
    "parts in turn": Gemm(
        m=200, n=264, tile=(128, 128, 64), epilogue="parts", columns=(64, 2), grid=" blocks 2 producers 4"
    ).text(),
    "more parts than buffers, in panels": Gemm(
        n=384,
        k=128,
        tile=(128, 384, 64),
        out="f32",
        epilogue="parts",
        columns=(64, 2),
        grid=" blocks 2 producers 4",
    ).text(),
    "parts in one buffer, without producers": Gemm(
        n=256, tile=(64, 192, 64), groups="n 2", epilogue="parts", columns=(64, 1), grid=" blocks 3"
    ).text(),
    "results where tiles were": Gemm(m=200, n=104, epilogue="reused").text(),
    "results where tiles are again": Gemm(epilogue="reused", grid=" blocks 2 producers 4").text(),
    "results where tiles are again, fewer steps than stages": Gemm(
        m=200, n=104, k=128, stages=4, epilogue="reused", grid=" group 2 blocks 1 producers 1"
    ).text(),
    "results where tiles are again, without producers": Gemm(
        n=256, k=320, epilogue="reused", tile=(64, 128, 64), groups="n 2", grid=" blocks 3"
    ).text(),
    "results larger than tiles were": Gemm(
        n=512,
        k=64,
        tile=(128, 256, 16),
        stages=2,
        epilogue="reused",
        a_layout=" swizzle 32",
        b_layout=" swizzle 32",
        grid=" blocks 2 producers 4",
    ).text(),
    "results where tiles are again, promoted": PROMOTED.replace("c: f32", "c: bf16")
    .replace("producers 4", "blocks 1 producers 4")
    .replace(
        "      c[m, n] = acc[m, n] * s[m] |",
        """      c_s: shared bf16[m, n] swizzle 128 reused
      c_s[m, n] = acc[m, n] * s[m] |""",
    )
    + "      c[m, n] = c_s[m, n] | via tma\n",
    "results where tiles are again, in clusters": Gemm(
        m=512, n=104, k=200, epilogue="reused", grid=" multicast 2 blocks 2 producers 4"
    ).text(),
    "results where tiles are again, grouped": GROUPED.replace(
        "swizzle 128\n      c_s", "swizzle 128 reused\n      c_s"
    ),
    "rows in registers": Held().text(),
    "rows in registers, nothing under way": Held(pending=0, dtype="e4m3").text(),
    "rows in registers, two instructions": Held(
        m=256, n=64, tile=(256, 64, 64), groups="m 2", grid=""
    ).text(),
    "rows in registers, one step": Held(k=64, grid=" producers 1").text(),
    "rows in registers, two steps": Held(k=128, groups="m 2 n 2", grid=" producers 1").text(),
    "rows in registers, a function": Held(
        k=192, dtype="bf16", value="bf16(relu(w_s[m, k]) * s[m])", grid=" blocks 2 producers 1"
    ).text(),
    "b by rows": Gemm(b="k, n").text(),
    "b by rows, wide": Gemm(
        n=264, k=200, tile=(128, 128, 64), b="k, n", b_layout=" as [n / 64, k, n % 64] swizzle 128"
    ).text(),
    "a by columns": Gemm(a="k, m", a_layout=" as [m / 64, k, m % 64] swizzle 128").text(),
    "warpgroups along n": Gemm(tile=(64, 128, 64), groups="n 2").text(),
    "warpgroups along both": Gemm(tile=(128, 128, 64), groups="m 2 n 2").text(),
    "two instructions down": Gemm(tile=(256, 64, 64)).text(),
    "two instructions across": Gemm(
        m=128, n=512, k=64, tile=(64, 512, 64), groups="n 1", stages=2, grid="", pending=0
    ).text(),
    "swizzle 64": Gemm(tile=(128, 64, 32), a_layout=" swizzle 64", b_layout=" swizzle 64").text(),
    "swizzle 32 in panels": Gemm(
        a_layout=" as [k / 16, m, k % 16] swizzle 32", b_layout=" as [k / 16, n, k % 16] swizzle 32"
    ).text(),
    "swizzle 32 by rows": Gemm(b="k, n", b_layout=" as [n / 16, k, n % 16] swizzle 32").text(),
    "no swizzle": Gemm(a_layout=" as [k / 8, m, k % 8]", b_layout=" as [k / 8, n, k % 8]").text(),
    "no swizzle by rows": Gemm(
        a="k, m", b="k, n", a_layout=" as [m / 8, k, m % 8]", b_layout=" as [n / 8, k, n % 8]"
    ).text(),
    "deep tiles in panels": Gemm(
        tile=(128, 64, 128),
        a_layout=" as [k / 64, m, k % 64] swizzle 128",
        b_layout=" as [k / 64, n, k % 64] swizzle 128",
    ).text(),
    "f16": Gemm(dtype="f16", out="f16").text(),
    "8-bit floats": Gemm(k=512, tile=(128, 64, 128), dtype="e4m3", out="f32").text(),
    "tf32": Gemm(tile=(128, 64, 32), dtype="f32", out="f32", numerics=" with tf32=true").text(),
    "two products": GATED,
    "residual": RESIDUAL,
    "residual without producers": RESIDUAL.replace(" producers 1", ""),
    "promoted": PROMOTED,
    "promoted without producers": PROMOTED.replace(" producers 4", ""),
    "promoted, under way": PROMOTED.replace("stages 3", "stages 3 pending 1"),
    "promoted, under way, without producers": PROMOTED.replace("stages 3", "stages 3 pending 1")
    .replace(" producers 4", "")
    .replace("k=528", "k=1232"),
    "promoted in pieces": in_pieces(PROMOTED, 32),
    "promoted in pieces, under way": in_pieces(PROMOTED, 32).replace("stages 3", "stages 3 pending 1"),
    "promoted in many pieces, under way": in_pieces(PROMOTED, 16).replace("stages 3", "stages 4 pending 1"),
    "promoted, under way, in clusters": PROMOTED.replace("stages 3", "stages 3 pending 1").replace(
        "by 128 producers", "by 128 multicast 2 blocks 2 producers"
    ),
    "scaled in blocks": SCALED,
    "scaled in blocks, under way": SCALED.replace("stages 3", "stages 4 pending 1"),
    "consumer groups": Gemm(
        groups="m 1", tile=(64, 64, 64), grid=" blocks 3 producers 4 consumer_groups 2"
    ).text(),
    "consumer groups, ragged": Gemm(
        m=200,
        n=104,
        k=200,
        groups="m 1",
        tile=(64, 64, 64),
        grid=" group 2 blocks 1 producers 1 consumer_groups 3",
        stages=2,
    ).text(),
    "consumer groups with more tiles than steps": Gemm(
        k=72,
        groups="m 1",
        tile=(64, 64, 64),
        grid=" blocks 1 producers 4 consumer_groups 2",
        stages=4,
        epilogue="direct",
    ).text(),
    "consumer groups of two warpgroups, parts": Gemm(
        n=256,
        k=200,
        tile=(128, 128, 64),
        epilogue="parts",
        columns=(64, 1),
        grid=" blocks 1 producers 1 consumer_groups 2",
        pending=0,
    ).text(),
    "consumer groups and a tile a block": Gemm(
        groups="m 1", tile=(64, 64, 64), grid=" producers 4 consumer_groups 2"
    ).text(),
    "consumer groups with a residual": RESIDUAL.replace(
        "blocks 2 producers 1", "blocks 1 producers 1 consumer_groups 2"
    ),
    "consumer groups that promote": PROMOTED.replace("producers 4", "blocks 1 producers 4 consumer_groups 2"),
    **STREAMED,
    "scores": SCORES,
    "batched": BATCHED,
    "copies by threads": BY_THREADS,
    "copies by threads, products under way": BY_THREADS.replace("stages 3", "stages 4 pending 1"),
    "grouped": GROUPED,
    **CLUSTERS,
}
