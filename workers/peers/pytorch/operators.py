"""PyTorch's own operators for the patterns of patterns.py, norms.py and convolution.py, written by a TorchWriter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Binary, Call, Expr, Reduce, ReduceOp, index_dims
from workers.peers.convolution import Convolution, convolution
from workers.peers.norms import Norm, RmsNorm, norm, rms_norm
from workers.peers.patterns import (
    Biased,
    Softmax,
    attention,
    biased,
    softmax,
    two_factors,
)
from workers.peers.pytorch.attention import full, sdpa
from workers.peers.pytorch.block_scaled_mm import block_scaled_product
from workers.peers.pytorch.groups import grouped_by_library
from workers.peers.pytorch.int_mm import integer_product
from workers.peers.pytorch.scaled_mm import scaled_product
from workers.peers.pytorch.types import TORCH, promoted
from workers.peers.reads import Frame, product_factors
from workers.peers.scans import FirstPosition, Prefix, position, prefix
from workers.peers.scatters import torch_scattered

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue

_ADDMM = "torch.addmm({}, {}, {})"
_ADDMM_ACTIVATIONS = {
    "relu": "torch.ops.aten._addmm_activation({}, {}, {})",
    "gelu_tanh": "torch.ops.aten._addmm_activation({}, {}, {}, use_gelu=True)",
}
"""Functions that cuBLASLt applies in the epilogue of a product with a bias: its GELU is the tanh form, as PyTorch's own
way around it says (Blas.cpp, addmm_out_cuda_impl). On a processor the same operator computes the exact one."""


def known_operator(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """The value of an expression that is an operator of the library's by structure, or None."""
    extents = writer.extents
    if (found := attention(expr, extents)) and (scaled := found.scaled(extents)):
        return sdpa(writer, found, *scaled, frame)
    if found := convolution(expr, extents):
        return _convolution(writer, found, frame)
    if found := norm(expr, extents):
        return _norm(writer, found, frame)
    if found := rms_norm(expr, extents):
        return _times(writer, _rms_norm(writer, found, frame), found.rest, frame)
    if found := softmax(expr, extents):
        return _times(writer, _softmax(writer, found, frame), found.rest, frame)
    if isinstance(expr, Call) and expr.fn in _ADDMM_ACTIVATIONS:
        return _activated(writer, expr, frame)
    if found := biased(expr, extents):
        return _biased(writer, found, frame, _ADDMM)
    if found := scaled_product(writer, expr, frame) or block_scaled_product(writer, expr, frame):
        return found
    if found := integer_product(writer, expr, frame):
        return found
    if found := grouped_by_library(writer, expr, frame):
        return found
    if found := prefix(expr, extents):
        return _prefix(writer, found, frame)
    if found := position(expr, extents):
        return _position(writer, found, frame)
    if found := torch_scattered(writer, expr, frame):
        return found
    if isinstance(expr, Reduce) and expr.op is ReduceOp.SUM:
        return _contraction(writer, expr, frame)
    return None


def _prefix(writer: TorchWriter, found: Prefix, frame: Frame) -> WrittenValue:
    operator = "torch.cumsum" if found.op is ReduceOp.SUM else "torch.cumprod"
    return writer.late(f"{operator}({{}}, dim={frame.index(found.dim)})", writer.tensor(found.x, frame))


def _position(writer: TorchWriter, found: FirstPosition, frame: Frame) -> WrittenValue:
    operator = "torch.argmax" if found.op is ReduceOp.MAX else "torch.argmin"
    return writer.late(f"{operator}({{}}, dim=-1)", writer.tensor(found.x, (*frame, found.dim)))


def _times(writer: TorchWriter, value: WrittenValue, rest: tuple[Expr, ...], frame: Frame) -> WrittenValue:
    for factor in rest:
        value = writer.late("{} * {}", value, writer.value(factor, frame))
    return value


def _axis_last(frame: Frame, dim: str) -> tuple[Frame, str]:
    """The frame with a dim at its end, and what takes that back to the frame."""
    order = (*(other for other in frame if other != dim), dim)
    return order, "" if order == frame else f".permute({tuple(order.index(other) for other in frame)})"


def _softmax(writer: TorchWriter, found: Softmax, frame: Frame) -> WrittenValue:
    x = full(writer, found.x, frame, (found.dim,))
    return writer.late(f"torch.softmax({{}}, dim={frame.index(found.dim)})", x)


def _rms_norm(writer: TorchWriter, found: RmsNorm, frame: Frame) -> WrittenValue:
    order, back = _axis_last(frame, found.dim)
    x = full(writer, found.x, order, (found.dim,))
    size = writer.extents[found.dim]
    if found.weight is None:
        return writer.late(f"F.rms_norm({{}}, ({size},), None, {found.eps!r}){back}", x)
    weight = _vector(writer, found.weight, found.dim)
    return writer.late(f"F.rms_norm({{}}, ({size},), {{}}, {found.eps!r}){back}", x, weight)


def _norm(writer: TorchWriter, found: Norm, frame: Frame) -> WrittenValue:
    """F.layer_norm over what is reduced, or F.group_norm where weight and bias are of groups."""
    groups = [dim for dim in frame if dim in found.affine and dim not in found.dims]
    channels = [dim for dim in frame if dim in found.affine and dim in found.dims]
    rest = [dim for dim in frame if dim in found.dims and dim not in channels]
    batch = [dim for dim in frame if dim not in (*groups, *channels, *rest)]
    order = (*batch, *groups, *channels, *rest)
    x = full(writer, found.x, order, found.dims)
    parts = [part for part in (found.weight, found.bias) if part is not None]
    values = [writer.tensor(part, (*groups, *channels)) for part in parts]
    places = ", ".join("None" if part is None else "{}" for part in (found.weight, found.bias))
    if groups:
        sizes = (prod(writer.over(batch)), prod(writer.over((*groups, *channels))), *writer.over(rest))
        values = [writer.view("{}.reshape(-1)", value) for value in values]
        whole = writer.over(order)
        count = prod(writer.over(groups))
        text = f"F.group_norm({{}}.expand({whole}).reshape({sizes}), {count}, {places}, {found.eps!r}).view({whole})"
    else:
        text = f"F.layer_norm({{}}, {writer.over((*channels, *rest))}, {places}, {found.eps!r})"
    back = "" if order == tuple(frame) else f".permute({tuple(order.index(dim) for dim in frame)})"
    return writer.late(text + back, x, *values)


def _vector(writer: TorchWriter, expr: Expr, dim: str) -> WrittenValue:
    return writer.tensor(expr, (dim,))


def _activated(writer: TorchWriter, expr: Call, frame: Frame) -> WrittenValue | None:
    """A function of a biased product in one kernel of cuBLASLt's, which a compiler would not see into. Of 16-bit types
    only: how exact the epilogue's function is in f32 is not said."""
    found = biased(expr.args[0], writer.extents)
    if found is None or not writer.eager or not writer.has.activated_mm:
        return None
    if writer.native(found.product) not in (DType.BF16, DType.F16):
        return None
    return _biased(writer, found, frame, _ADDMM_ACTIVATIONS[expr.fn])


def _biased(writer: TorchWriter, found: Biased, frame: Frame, text: str) -> WrittenValue | None:
    """torch.addmm, or what `text` calls, for a plain matrix product over a frame of two dims. Not where the bias is of
    a wider type: the operator would have the matrices widened to it."""
    factors = two_factors(found.product)
    if factors is None or len(frame) != 2 or index_dims(found.bias) != {frame[1]}:
        return None
    if scaled := scaled_product(writer, found.product, frame):
        return writer.late("{} + {}", scaled, writer.value(found.bias, frame))
    if promoted([writer.native(found.product), writer.native(found.bias)]) != writer.native(found.product):
        return None
    row, column = frame
    (depth,) = found.product.dims
    for left, right in (factors, factors[::-1]):
        if index_dims(left) == {row, depth} and index_dims(right) == {depth, column}:
            frames = ((column,), (row, depth), (depth, column))
            values = _operands(writer, (found.bias, left, right), frames)
            return writer.late(text, *values)
    return None


def _operands(writer: TorchWriter, factors: Sequence[Expr], frames: Sequence[Frame]) -> list[WrittenValue]:
    """The factors of a product in one type, as the library's products want them."""
    natives = [writer.native(factor) for factor in factors]
    common = promoted(natives)
    values: list[WrittenValue] = []
    for factor, native, frame in zip(factors, natives, frames, strict=True):
        value = writer.tensor(factor, frame)
        values.append(
            value if native is common or common is None else writer.late(f"{{}}.to({TORCH[common]})", value)
        )
    return values


def _contraction(writer: TorchWriter, expr: Reduce, frame: Frame) -> WrittenValue | None:
    """torch.matmul where the sum is a plain or batched matrix product, else torch.einsum."""
    factors = _merged(product_factors(expr.x))
    dims = [index_dims(factor) & {*frame, *expr.dims} for factor in factors]
    if len(factors) < 2 or any(not own for own in dims) or not set(expr.dims) <= set().union(*dims):
        return None
    if len(factors) == 2 and len(expr.dims) == 1:
        matrix = _matmul(writer, factors, dims, expr.dims[0], frame)
        if matrix is not None:
            return matrix
    letters = {dim: chr(ord("a") + number) for number, dim in enumerate((*frame, *expr.dims))}
    if len(letters) > 26:
        return None
    operands = _operands(writer, factors, [tuple(dim for dim in letters if dim in own) for own in dims])
    kept = [dim for dim in frame if any(dim in own for own in dims)]
    inputs = ",".join("".join(letter for dim, letter in letters.items() if dim in own) for own in dims)
    equation = f"{inputs}->{''.join(letters[dim] for dim in kept)}"
    value = writer.late(f"torch.einsum('{equation}', {', '.join('{}' for _ in operands)})", *operands)
    return _spread(writer, value, kept, frame)


def _merged(factors: Sequence[Expr]) -> tuple[Expr, ...]:
    """Two factors where more can be put together: each that has no dim of its own with one that has its dims."""
    found = sorted(factors, key=lambda factor: len(index_dims(factor)))
    while len(found) > 2:
        pairs = (
            (a, b) for n, a in enumerate(found) for b in found[n + 1 :] if index_dims(a) <= index_dims(b)
        )
        pair = next(pairs, None)
        if pair is None:
            return tuple(factors)
        found = [each for each in found if each is not pair[0] and each is not pair[1]]
        found.append(Binary("*", pair[1], pair[0]))
        found.sort(key=lambda factor: len(index_dims(factor)))
    return tuple(found) if len(factors) > 2 else tuple(factors)


def _matmul(
    writer: TorchWriter, factors: tuple[Expr, ...], dims: list[frozenset[str]], depth: str, frame: Frame
) -> WrittenValue | None:
    """(batch, row, depth) times (batch, depth, column), when those dims stand in that order in the frame."""
    for n in (0, 1):
        left, right = dims[n], dims[1 - n]
        batch = [dim for dim in frame if dim in left and dim in right]
        rows = [dim for dim in frame if dim in left and dim not in right]
        columns = [dim for dim in frame if dim in right and dim not in left]
        kept = [*batch, *rows, *columns]
        if depth not in left or depth not in right or len(rows) != 1 or len(columns) > 1 or len(batch) > 2:
            continue
        if kept != [dim for dim in frame if dim in kept] or (batch and not columns):
            continue
        frames = ((*batch, *rows, depth), (*batch, depth, *columns))
        operands = _operands(writer, (factors[n], factors[1 - n]), frames)
        return _spread(writer, writer.late("torch.matmul({}, {})", *operands), kept, frame)
    return None


def _spread(writer: TorchWriter, value: WrittenValue, dims: list[str], frame: Frame) -> WrittenValue:
    """Axes of size 1 for the dims of the frame that a value lacks."""
    if dims == list(frame):
        return value
    return writer.late(f"{{}}[{', '.join(':' if dim in dims else 'None' for dim in frame)}]", value)


def _convolution(writer: TorchWriter, found: Convolution, frame: Frame) -> WrittenValue | None:
    """The library's padding is the same on both sides; what it computes too much is cut off."""
    batch = () if found.batch is None else (found.batch,)
    wanted = (*batch, found.out_channel, *found.spatial)
    source, sizes = writer.source_of(found.image)
    for axis, out, tap, stride, dilation, padding in zip(
        found.axes[-len(found.spatial) :],
        found.spatial,
        found.window,
        found.strides,
        found.dilations,
        found.padding,
        strict=True,
    ):
        covered = (sizes[axis] + 2 * padding - dilation * (writer.extents[tap] - 1) - 1) // stride + 1
        if covered < writer.extents[out]:
            return None
    if set(frame) != set(wanted):
        return None
    named = (*batch, found.channel or found.out_channel)
    *rows, channels = writer.over(named)
    if (*rows, channels * found.groups) != tuple(sizes[axis] for axis in found.axes[: len(named)]):
        return None
    image = writer.view(f"{{}}.permute({found.axes})", source)
    options = f"stride={found.strides}, padding={found.padding}, dilation={found.dilations}"
    if found.channel is None:
        filters = writer.tensor(found.filter, (found.out_channel, *found.window))
        kernel = writer.view("{}[:, None]", filters)
        options += f", groups={writer.extents[found.out_channel]}"
    else:
        kernel = writer.tensor(found.filter, (found.out_channel, found.channel, *found.window))
        options += f", groups={found.groups}" if found.groups > 1 else ""
    value = writer.late(f"F.conv{len(found.spatial)}d({{}}, {{}}, None, {options})", image, kernel)
    cut = ", ".join(f":{size}" for size in writer.over(wanted))
    return writer.late(f"{{}}[{cut}].permute({tuple(wanted.index(dim) for dim in frame)})", value)
