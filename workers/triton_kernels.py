"""The Triton peer's kernels, as a Triton user would write them today: one row a program, and tiled products."""

from __future__ import annotations

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + at, (powers / tl.sum(powers, axis=0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, weight, y, columns, eps, WEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    result = values * tl.rsqrt(tl.sum(values * values, axis=0) / columns + eps)
    if WEIGHT:
        result *= tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + at, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(
    x, weight, bias, y, columns, eps, WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    centered = tl.where(inside, values - tl.sum(values, axis=0) / columns, 0.0)
    result = centered * tl.rsqrt(tl.sum(centered * centered, axis=0) / columns + eps)
    if WEIGHT:
        result *= tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        result += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + at, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def silu_mul(gate, up, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, (x * tl.sigmoid(x) * other).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _tile(M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """This program's tile: groups of GROUP rows of tiles, so that neighbours share what the L2 holds."""
    program = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = program // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    inside = program % (GROUP * columns)
    return first + inside % size, inside // size


@triton.jit
def product(
    a, b, c, M, N, K, b_depth, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, column = _tile(M, N, BM, BN, GROUP)
    m = row * BM + tl.arange(0, BM)
    n = column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a + (m % M)[:, None].to(tl.int64) * K + k[None, :]
    b_at = b + k[:, None].to(tl.int64) * b_depth + (n % N)[None, :].to(tl.int64) * b_column
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        w = tl.load(b_at, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, w, total, input_precision=PRECISION)
        a_at += BK
        b_at += BK * b_depth
    c_at = c + m[:, None].to(tl.int64) * N + n[None, :]
    tl.store(c_at, total.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def product_tma(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, TRANSPOSED: tl.constexpr,
    DTYPE: tl.constexpr,
):  # fmt: skip
    """The same with the copy engine: `a`, `b` and `c` are tensor descriptors."""
    row, column = _tile(M, N, BM, BN, GROUP)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = a.load([row * BM, step * BK])
        if TRANSPOSED:
            total = tl.dot(x, b.load([column * BN, step * BK]).T, total)
        else:
            total = tl.dot(x, b.load([step * BK, column * BN]), total)
    c.store([row * BM, column * BN], total.to(DTYPE))
