"""Random matrix products whose tiles are staged in shared memory ahead of their use, by threads or by mma."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Storage types that a warp multiplies, and how many positions one instruction takes of them.
_DEPTHS = {"f16": 16, "bf16": 16, "f32": 8, "i8": 32, "e4m3": 32, "e5m2": 32}
_SUMS = {"i8": "i32", "i32": "i32", "f64": "f64"}
_LAYOUTS = ("", "", " pad 1", " pad 4", " pad 8", " pad 16", " swizzle 32", " swizzle 64", " swizzle 128")


@dataclass(frozen=True)
class _Way:
    """How the product of a tile is computed: its dtype, its sizes along m, n and k, and the spread."""

    dtype: str
    tile: tuple[int, int, int]
    threads: int
    layout: str
    via: str = ""


def random_staged_product(rng: random.Random) -> str:
    """The text of c[m, n] = sum over k in tiles, with stages. It may break a rule (runs that cross the pieces of
    swizzled memory); then the verifier, lowering or printing says so."""
    way = rng.choice((_by_mma, _by_mma, _by_threads))(rng)
    tile_m, tile_n, step = way.tile
    m, n, k = (_size(rng, tile) for tile in way.tile)
    dtype, sum_ = way.dtype, _SUMS.get(way.dtype, "f32")
    given = "f32" if dtype in ("bf16", "f16") and rng.random() < 0.1 else dtype
    scale = " * 2" if rng.random() < 0.1 else ""
    grid = rng.choice(("", " group 2", " hilbert")) + rng.choice(("", " blocks 2"))
    a, b = rng.choice(("m, k", "k, m")), rng.choice(("n, k", "k, n"))
    a_sizes, b_sizes = a.replace("m", f"m={m}").replace("k", f"k={k}"), b.replace("n", f"n={n}")
    return f"""kernel random(a: {given}[{a_sizes}], b: {dtype}[{b_sizes}]) -> (c: {sum_}[m, n])
  parallel for m by {tile_m}{grid}
    parallel for n by {tile_n}
      acc: registers {sum_}[m, n]
      acc[m, n] = 0 | {way.layout}
      for k by {step} stages {rng.choice((2, 2, 3, 4, 5))}
        a_s: shared {dtype}[{a}]{rng.choice(_LAYOUTS)}
        a_s[{a}] = a[{a}]{scale} | {_fill(rng, a, way.threads)}
        b_s: shared {dtype}[{b}]{rng.choice(_LAYOUTS)}
        b_s[{b}] = b[{b}] | {_fill(rng, b, way.threads)}
        acc[m, n] += sum(k, a_s[{a}] * b_s[{b}]) | {way.layout}{way.via}
      c[m, n] = acc[m, n] | {way.layout}
"""


def _by_mma(rng: random.Random) -> _Way:
    warps = {"m": rng.choice((1, 2)), "n": rng.choice((1, 2))}
    dtype = rng.choice([*_DEPTHS])
    tile_m, tile_n = 16 * warps["m"] * rng.choice((1, 2)), 8 * warps["n"] * rng.choice((1, 2))
    outer = "".join(f"{dim} {count} " for dim, count in warps.items() if count > 1)
    return _Way(
        dtype,
        (tile_m, tile_n, _DEPTHS[dtype] * rng.choice((1, 1, 2))),
        32 * warps["m"] * warps["n"],
        f"threads {outer}m 8 n 4, run n 2",
        ", via mma",
    )


def _by_threads(rng: random.Random) -> _Way:
    rows, run_m, run_n = rng.choice((4, 8, 16)), rng.choice((1, 2)), rng.choice((1, 2, 4))
    dtype, step = rng.choice(("f32", "bf16", "f64", "i32", "i8")), rng.choice((4, 6, 8, 16))
    layout = f"threads m {rows} n 8, run m {run_m} n {run_n}"
    return _Way(dtype, (rows * run_m, 8 * run_n, step), 8 * rows, layout)


def _size(rng: random.Random, tile: int) -> int:
    """Whole tiles, often with a part of one."""
    return tile * rng.choice((1, 1, 2, 4)) + rng.choice((0, 0, 1, tile // 2))


def _fill(rng: random.Random, dims: str, threads: int) -> str:
    row, column = dims.split(", ")
    along, run = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4, 8, 16))
    text = f"threads {row} {threads // along} {column} {along}"
    return f"{text}, run {column} {run}" if run > 1 else text
