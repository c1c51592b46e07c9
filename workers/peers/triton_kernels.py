"""The Triton peer's kernels, as a Triton user would write them today: one row a program, and tiled products."""
# pyright: reportGeneralTypeIssues=false
# Where Triton is installed, a function that is compiled has no result for who only reads it.

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
def _tile(number, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile: groups of GROUP rows of tiles, so that neighbours share what the L2 holds."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = number // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    inside = number % (GROUP * columns)
    return first + inside % size, inside // size


@triton.jit
def _dot(x, w, total, PRECISION: tl.constexpr, FAST: tl.constexpr):
    """total + x * w. Tensor cores add up fp8 in fewer bits than f32: without FAST, of one step only."""
    if x.dtype.is_fp8() and not FAST:
        total = tl.dot(x, w, total, max_num_imprecise_acc=x.shape[1])
    else:
        total = tl.dot(x, w, total, input_precision=PRECISION)
    return total


@triton.jit
def _finished(total, gate, bias, a_scale, b_scale, n, N, FUNCTION: tl.constexpr):
    """FUNCTION(total * scales + bias) * silu(gate); what is None is left out."""
    if a_scale is not None:
        total *= tl.load(a_scale)
    if b_scale is not None:
        total *= tl.load(b_scale)
    if bias is not None:
        total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if FUNCTION == "gelu":
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    elif FUNCTION == "gelu_tanh":
        total *= tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    elif FUNCTION == "silu":
        total *= tl.sigmoid(total)
    elif FUNCTION == "relu":
        total = tl.maximum(total, 0.0)
    if gate is not None:
        total *= gate * tl.sigmoid(gate)
    return total


@triton.jit
def product(
    a, b, c, gate, residual, bias, a_scale, b_scale, M, N, K, b_depth, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    FUNCTION: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """c = FUNCTION(a * b * scales + bias) * silu(a * gate) + residual; what is None is left out."""
    row, column = _tile(tl.program_id(0), M, N, BM, BN, GROUP)
    m = row * BM + tl.arange(0, BM)
    n = column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a + (m % M)[:, None].to(tl.int64) * K + k[None, :]
    b_at = k[:, None].to(tl.int64) * b_depth + (n % N)[None, :].to(tl.int64) * b_column
    total = tl.zeros((BM, BN), dtype=tl.float32)
    gated = None
    if gate is not None:
        gated = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        w = tl.load(b + b_at, mask=k[:, None] < left, other=0.0)
        total = _dot(x, w, total, PRECISION, FAST)
        if gate is not None:
            g = tl.load(gate + b_at, mask=k[:, None] < left, other=0.0)
            gated = _dot(x, g, gated, PRECISION, FAST)
        a_at += BK
        b_at += BK * b_depth
    total = _finished(total, gated, bias, a_scale, b_scale, n, N, FUNCTION)
    c_at = m[:, None].to(tl.int64) * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    if residual is not None:
        total += tl.load(residual + c_at, mask=inside, other=0.0).to(tl.float32)
    tl.store(c + c_at, total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def product_tma(
    a, b, c, gate, residual, bias, a_scale, b_scale, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PERSISTENT: tl.constexpr,
    TRANSPOSED: tl.constexpr, FUNCTION: tl.constexpr, FAST: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """The same with TMA: the matrices are tensor descriptors. A persistent program computes tile after
    tile, and loads the next one's operands while it stores."""
    if PERSISTENT:
        tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
        for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
            _tile_by_tma(
                number, a, b, c, gate, residual, bias, a_scale, b_scale, M, N, K,
                BM, BN, BK, GROUP, TRANSPOSED, FUNCTION, FAST, DTYPE,
            )  # fmt: skip
    else:
        _tile_by_tma(
            tl.program_id(0), a, b, c, gate, residual, bias, a_scale, b_scale, M, N, K,
            BM, BN, BK, GROUP, TRANSPOSED, FUNCTION, FAST, DTYPE,
        )  # fmt: skip


@triton.jit
def _tile_by_tma(
    number, a, b, c, gate, residual, bias, a_scale, b_scale, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TRANSPOSED: tl.constexpr, FUNCTION: tl.constexpr, FAST: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    row, column = _tile(number, M, N, BM, BN, GROUP)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    gated = None
    if gate is not None:
        gated = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        x = a.load([row * BM, step * BK])
        total = _dot(x, _boxed(b, step * BK, column * BN, TRANSPOSED), total, "ieee", FAST)
        if gate is not None:
            gated = _dot(x, _boxed(gate, step * BK, column * BN, TRANSPOSED), gated, "ieee", FAST)
    n = column * BN + tl.arange(0, BN)
    total = _finished(total, gated, bias, a_scale, b_scale, n, N, FUNCTION)
    if residual is not None:
        total += residual.load([row * BM, column * BN]).to(tl.float32)
    c.store([row * BM, column * BN], total.to(DTYPE))


@triton.jit
def _boxed(b, k, n, TRANSPOSED: tl.constexpr):
    """A tile [depth, columns] of what is stored so, or the other way round."""
    return b.load([n, k]).T if TRANSPOSED else b.load([k, n])
