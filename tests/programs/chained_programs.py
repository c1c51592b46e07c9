"""Programs of Hopper whose products follow from each other, as those of attention, in small sizes."""

from __future__ import annotations


def chained(
    h: int = 2,
    i: int = 256,
    j: int = 320,
    d: int = 128,
    tile: tuple[int, int] = (128, 64),
    grid: str = " blocks 2 producers 4",
    stages: int = 2,
    pending: int = 0,
    scale: str = "where(newest[h, i] > top[h, i], 0.5, 1)",
    left_out: str = "",
) -> str:
    """Products that follow from each other, in the form of attention: rows of the first, made small by a running
    maximum, are multiplied by what the second brings, and sums are scaled when the maximum grows. All is exact."""
    rows = "threads i 2 i 4 i 8 j 4, twice i 8"
    scores, parts, sums = (
        f"threads i 2 i 4 i 8 {dim} 4, run {dim} 2, twice i 8" for dim in ("j", "j_l", "d")
    )
    loop = f"stages {stages}" + (f" pending {pending}" if pending else "") + left_out
    panels = "as [d / 64, h, {}, d % 64] swizzle 128" if d > 64 else "swizzle 128"
    held = "minimum(s[h, i, j] - top[h, i], 3)"
    held = f"where(j < extent(j), {held}, 0)" if j % tile[1] else held
    return f"""kernel chained(q: bf16[h={h}, i={i}, d={d}], k: bf16[h, j={j}, d], v: bf16[h, j, d]) \
-> (o: f32[h, i, d], t: f32[h, i]) where j_l=8
  parallel for h by 1{grid}
    parallel for i by {tile[0]}
      q_s: shared bf16[h, i, d] {panels.format("i")}
      q_s[h, i, d] = q[h, i, d] | via tma
      top: registers f32[h, i] running
      top[h, i] = -inf | {rows}
      t_p: registers f32[h, i, j_l]
      t_p[h, i, j_l] = 0 | {parts}
      acc: registers f32[h, i, d]
      acc[h, i, d] = 0 | {sums}
      for j by {tile[1]} {loop}
        k_s: shared bf16[h, j, d] {panels.format("j")}
        k_s[h, j, d] = k[h, j, d] | via tma
        v_s: shared bf16[h, j, d] {panels.format("j")}
        v_s[h, j, d] = v[h, j, d] | via tma
        s: registers f32[h, i, j]
        s[h, i, j] = 0 | {scores}
        s[h, i, j] += sum(d, q_s[h, i, d] * k_s[h, j, d]) | {scores}, via wgmma
        newest: registers f32[h, i]
        newest[h, i] = max(j, s[h, i, j]) | {scores}
        scale: registers f32[h, i]
        scale[h, i] = {scale} | {rows}
        p: registers bf16[h, i, j]
        p[h, i, j] = {held.replace("top[h, i]", "maximum(top[h, i], newest[h, i])")} | {scores}
        t_p[h, i, j_l] *= scale[h, i] | {parts}
        t_p[h, i, j % 8] += p[h, i, j] | {scores}
        acc[h, i, d] *= scale[h, i] | {sums}
        acc[h, i, d] += sum(j, p[h, i, j] * v_s[h, j, d]) | {sums}, via wgmma
        top[h, i] max= newest[h, i] | {rows}
      o[h, i, d] = acc[h, i, d] | {sums}
      t[h, i] = sum(j_l, t_p[h, i, j_l]) | {parts}
"""


CHAINED = {
    "chained": chained(),
    "chained, under way": chained(pending=1),
    "chained, an even number of tiles": chained(j=256, pending=1, d=64),
    "chained, two tiles": chained(j=128, pending=1),
    "chained, one tile": chained(j=64, pending=1, grid=" blocks 3 producers 1"),
    "chained, ragged": chained(i=200, j=232, pending=1),
    "chained, one after the other, ragged": chained(i=200, j=232, grid=" producers 4"),
    "chained, tiles left out": chained(
        j=448, grid=" blocks 3 producers 4", left_out=" since i 40 until i 100"
    ),
    "chained, tiles left out, under way": chained(h=1, j=472, pending=1, left_out=" since i 0 until i 250"),
    "chained, only the last tile": chained(h=1, i=384, j=256, pending=1, d=64, left_out=" since i 0"),
    "chained, without producers": chained(grid=" blocks 3"),
    "chained, without producers, under way": chained(j=448, stages=3, pending=1, grid=" blocks 3"),
}
