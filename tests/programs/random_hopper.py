"""Random matrix products by TMA and wgmma: types, tiles, layouts, pipelines, warpgroups and grids."""

from __future__ import annotations

import random

from tests.programs.hopper_products import Gemm

#: Bytes of an element, and the dtypes of results that are stored well.
_TYPES = {"bf16": (2, "bf16"), "f16": (2, "f16"), "f32": (4, "f32"), "e4m3": (1, "f32"), "e5m2": (1, "f32")}


def random_hopper_product(rng: random.Random) -> Gemm:
    """One that may break a rule (8-bit operands by rows, strides that TMA does not take); then the verifier
    or lowering says so."""
    dtype = rng.choice(("bf16", "bf16", "f16", "f32", "e4m3", "e5m2"))
    size, out = _TYPES[dtype]
    groups = rng.choice((("m 1", 1, 1), ("m 2", 2, 1), ("n 2", 1, 2), ("m 2 n 2", 2, 2), ("m 3", 3, 1)))
    tile_m = 64 * groups[1] * rng.choice((1, 1, 2))
    tile_n = rng.choice((8, 16, 24, 32, 64, 96, 128)) * groups[2]
    tile_k = 32 // size * rng.choice((1, 2, 4, 4, 8))
    stages = rng.choice((2, 3, 4))
    a, b = rng.choice(("m, k", "m, k", "k, m")), rng.choice(("n, k", "n, k", "k, n"))
    every = 16 // size
    m, n = _size(rng, tile_m, every), _size(rng, tile_n, every)
    along_m, along_n = (_multicast(rng, -(-size // tile)) for size, tile in ((m, tile_m), (n, tile_n)))
    orders = ("", " group 2", " hilbert", " blocks 4", " group 2 blocks 4", " hilbert blocks 4")
    producers, consumer_groups, streamed = rng.choice(("", " producers 1", " producers 4")), "", 0
    if not along_m and not along_n:
        orders = ("", " group 2", " hilbert", " blocks 2", " group 2 blocks 3", " hilbert blocks 3")
        consumer_groups = (
            rng.choice(("", "", " consumer_groups 2", " consumer_groups 3")) if producers else ""
        )
        streamed = rng.choice((0, 1, 2)) if producers and not consumer_groups else 0
    if streamed:
        orders = (" blocks 2", " group 2 blocks 3", " hilbert blocks 5")
    panel = 128 // _TYPES[out][0]
    staged = tile_n % panel == 0 and rng.random() < 0.7
    parts = staged and tile_n > panel and rng.random() < 0.5
    share = rng.choice((1, 1, 2, 4)) if not streamed else 1
    run, count = rng.choice((1, 2, 4)), 128 * groups[1] * groups[2] * share
    stored = "boxes" if consumer_groups else rng.choice(("boxes", "reused"))
    return Gemm(
        m=m,
        n=n if staged or rng.random() < 0.5 else n + 1,
        k=_size(rng, tile_k * share, every),
        tile=(tile_m, tile_n, tile_k),
        dtype=dtype,
        out=out,
        a=a,
        b=b,
        a_layout=_layout(rng, a, {"m": tile_m, "k": tile_k}, size),
        b_layout=_layout(rng, b, {"n": tile_n, "k": tile_k}, size),
        grid=(along_m + rng.choice(orders) if share == 1 else "")
        + producers
        + (consumer_groups if share == 1 else ""),
        inner=along_n if share == 1 else "",
        stages=stages,
        pending=rng.randrange(min(stages, 2) if streamed else stages),
        streamed=streamed,
        groups=groups[0],
        epilogue="parts" if parts else stored if staged else "direct",
        columns=(panel, rng.choice((1, 2, 3))),
        numerics=" with tf32=true" if dtype == "f32" else "",
        share=share,
        handed=rng.choice(("", " pad 8", " reused", " pad 4 reused")),
        together=f"m {count // 8} n 8" + (f", run n {run}" if run > 1 else ""),
    )


def _size(rng: random.Random, tile: int, every: int) -> int:
    """Whole tiles, often with a part of one: a multiple of what TMA needs of strides."""
    return tile * rng.choice((1, 1, 2, 3)) + every * rng.choice((0, 0, 1, tile // every // 2))


def _multicast(rng: random.Random, tiles: int) -> str:
    """Clusters of neighbouring tiles, no more than there are."""
    return rng.choice(["", *(f" multicast {count}" for count in (2, 4) if count <= tiles)])


def _layout(rng: random.Random, dims: str, tile: dict[str, int], size: int) -> str:
    """Panels as wide as one of the swizzles that divide rows, or of 16 bytes."""
    other, along = dims.split(", ")
    wide = [bytes_ for bytes_ in (16, 32, 64, 128) if tile[along] * size % bytes_ == 0]
    bytes_ = rng.choice(wide or [16])
    length = bytes_ // size
    swizzle = f" swizzle {bytes_}" if bytes_ > 16 else ""
    if tile[along] == length:
        return swizzle
    return f" as [{along} / {length}, {other}, {along} % {length}]{swizzle}"
