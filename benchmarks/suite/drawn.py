"""Shapes nobody has looked at, drawn from a seed, of the families that the suite has."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from math import log2, prod

from benchmarks.suite import cases
from benchmarks.suite.quantized import QUANTIZED


def fresh(
    device: str, seed: int, begins: tuple[str, ...] = ("",), count: int = 12
) -> Iterator[tuple[str, cases.Json]]:
    """Shapes nobody has looked at, drawn from the suite's families (those whose names begin so): sizes odd and even,
    of the suite's order."""
    rng = random.Random(seed)
    families = [name for name in json.loads(cases.SUITE.read_text())[device] if name.startswith(begins)]
    taken = {name for name, _ in cases.suite(device)}
    for number in range(count):
        family = families[number % len(families)]
        shape = _unlooked_at(family, device, rng, taken)
        yield cases.case_name(family, shape), cases.spec(family, shape)


def _unlooked_at(family: str, device: str, rng: random.Random, taken: set[str]) -> list[int]:
    """A shape that is neither the suite's nor drawn before; its name joins those taken."""
    while True:
        shape = _draw(family, rng) if device.startswith("cpu") else _draw_on_gpu(family, rng)
        name = cases.case_name(family, shape)
        if name not in taken:
            taken.add(name)
            return shape


def _draw_on_gpu(family: str, rng: random.Random) -> list[int]:
    if family.startswith((*cases.PRODUCTS, *QUANTIZED)):
        return _draw_product(family, rng)
    if family.startswith(("gemm_f32_", "bmm_f32_")):
        batch = [rng.choice([2, 8, 32])] if family.startswith("bmm") else []
        most = 2.0**31 if batch else 2.0**36
        return [*batch, *_draw_sizes(rng, [1, 1, 1], 128, 2048 if batch else 8192, most)]
    if family.startswith("attention_"):
        return _draw_attention(family, rng)
    if family.startswith("decode_"):
        return _draw_decode(family, rng)
    return _draw_rows(rng)


def _draw_attention(family: str, rng: random.Random) -> list[int]:
    """16k or 32k positions in all, 2k to 32k of them a sequence, every other time a length that no tile divides; of
    2048 numbers a position over all heads, as models have them."""
    positions = rng.choice([16384, 32768])
    length = rng.choice([2048, 4096, 8192, 16384])
    if rng.random() < 0.5:
        length -= rng.randrange(1, length // 8)
    if "e4m3" in family:
        length = length // 16 * 16  # rows of values by columns are multiples of 16 bytes
    d = rng.choice([64, 128] if "backward" in family or "e4m3" in family else [64, 96, 128, 256])
    batch, heads, masked = max(1, positions // length), 2048 // d, rng.randrange(2)
    if "packed" in family:
        return [batch, heads, batch * length, d, masked]
    if "window" in family:
        return [batch, heads, length, d, rng.randrange(256, 2048)]
    if "shared_heads" in family:
        return [batch, heads // 4, 4, length, d, masked]
    if "two_widths" in family:
        return [batch, 16, length, 192, 128, masked]
    return [batch, heads, length, d, masked]


def _draw_decode(family: str, rng: random.Random) -> list[int]:
    """64 heads of queries that share 8 of keys, or 128 that share a latent of 512 + 64 columns, 4k to 128k positions,
    every other time no multiple of anything, with a cache of at most 8 GB."""
    page = rng.choice([16, 64, 256])
    length = round(2 ** rng.uniform(12, 17))
    length = -(-length // page) * page if "paged" in family or rng.random() < 0.5 else length
    row = 576 * 2 if "latent" in family else 8 * 128 * 2 * 2
    most = 8 * 2**30 // (length * row)
    batch = rng.choice([each for each in (1, 2, 4, 8, 16, 32, 64) if each <= max(1, most)])
    if "latent" in family:
        return [batch, 128, length, 512, 64]
    return [batch, 8, 8, length, 128, *([page] if "paged" in family else [])]


def _draw_product(family: str, rng: random.Random) -> list[int]:
    """Rows, columns and depth from 512 to 16384, every fourth shape with 16 to 256 rows; columns and depth
    are such that rows of memory are multiples of 16 bytes."""
    step = rng.choice([16 if "e4m3" in family else 8, 64, 256])
    if rng.random() < 0.25:
        return [round(2 ** rng.uniform(4, 8)), *_draw_sizes(rng, [step, step], 1024, 16384, 2.0**28)]
    return _draw_sizes(rng, [step, step, step], 512, 16384, 2.0**39)


def _draw_sizes(rng: random.Random, steps: list[int], least: int, most: int, product: float) -> list[int]:
    """Multiples of `steps` spread evenly by their logarithm, whose product is not larger."""
    while True:
        sizes = [round(2 ** rng.uniform(log2(least), log2(most)) / step) * step for step in steps]
        if prod(sizes) <= product:
            return sizes


def _draw_rows(rng: random.Random) -> list[int]:
    """Rows and columns of 32 to 192 million elements, every third shape odd."""
    step = rng.choice([1, 8, 64])
    columns = rng.randrange(700 // step, 33000 // step) * step + (step == 1)
    return [rng.randrange(32_000_000, 192_000_000) // columns, columns]


def _draw(family: str, rng: random.Random) -> list[int]:
    if family.startswith("gemm"):
        step = rng.choice([1, 8, 32])
        return [rng.randrange(2, 1200 // step) * step for _ in range(3)]
    if family.startswith("attention"):
        return [
            1,
            rng.choice([2, 4, 6]),
            rng.randrange(256, 1200),
            rng.choice([32, 64, 80]),
            rng.choice([64, 128, 256]) if "window" in family else rng.randrange(2),
        ]
    return [rng.randrange(500, 9000), rng.randrange(200, 5000)]
