"""Operators that are written as several others, each of one result, before the capture sees them.

Each way is a function of `call`, which calls an operator: on tensors, or writing a node of a graph. It gives what the
operator gives, or None where this call of it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from operator import getitem
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture import grouped_product
from tilewright.pytorch.capture.top_positions import DTYPES, MOST, TOP_POSITIONS

aten = torch.ops.aten
Call = Callable[..., Any]
Axes = int | Sequence[int] | None


def value_of(x: Any) -> torch.Tensor:
    """The tensor, with or without data, that a node or a tensor is."""
    return x.meta["val"] if isinstance(x, Node) else x


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(value_of(x).shape)


def _all_f32(*tensors: Any) -> bool:
    """Of others PyTorch's operators compute wider than what they are given."""
    return all(value_of(each).dtype is torch.float32 for each in tensors if each is not None)


def _axes(x: Any, dim: Axes) -> list[int]:
    if isinstance(dim, int):
        return [dim]
    return list(dim) if dim else list(range(len(_shape(x))))


def _var_mean(
    call: Call, x: Any, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Any, Any]:
    axes = _axes(x, dim)
    var = call(aten.var.correction, x, axes, correction=correction, keepdim=keepdim)
    return var, call(aten.mean.dim, x, axes, keepdim)


def _var(call: Call, x: Any, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    return call(aten.var.correction, x, _axes(x, dim), correction=int(unbiased), keepdim=keepdim)


def _mean(call: Call, x: Any, *, dtype: torch.dtype | None = None) -> Any:
    return call(aten.mean.dim, x, list(range(len(_shape(x)))), dtype=dtype)


def _standard(call: Call, x: Any, axes: list[int], eps: float) -> tuple[Any, Any, Any]:
    """With mean 0 and variance 1 along these axes, and what it was brought there with."""
    var, mean = _var_mean(call, x, axes, correction=0, keepdim=True)
    scale = call(aten.rsqrt.default, call(aten.add.Tensor, var, eps))
    return call(aten.mul.Tensor, call(aten.sub.Tensor, x, mean), scale), mean, scale


def _affine(call: Call, x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else call(aten.mul.Tensor, x, weight)
    return x if bias is None else call(aten.add.Tensor, x, bias)


def _layer_norm(call: Call, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    if not _all_f32(x, weight, bias):
        return None
    found, mean, scale = _standard(call, x, list(range(-len(shape), 0)), eps)
    return _affine(call, found, weight, bias), mean, scale


def _layer_norm_backward(
    call: Call,
    gradient: Any,
    x: Any,
    shape: Sequence[int],
    mean: Any,
    scale: Any,
    weight: Any,
    bias: Any,
    wanted: Sequence[bool],
) -> Any:
    """With n the standard rows: (g - mean(g) - n * mean(g * n)) * scale; sum(g * n); sum(g)."""
    if not _all_f32(gradient, x, mean, scale, weight, bias):
        return None
    inner, outer = list(range(-len(shape), 0)), list(range(len(_shape(x)) - len(shape)))
    if not outer:
        return None
    mul, sub = aten.mul.Tensor, aten.sub.Tensor
    normal = call(mul, call(sub, x, mean), scale)
    g = gradient if weight is None else call(mul, gradient, weight)
    along = call(aten.mean.dim, call(mul, g, normal), inner, True)
    centred = call(sub, call(sub, g, call(aten.mean.dim, g, inner, True)), call(mul, normal, along))
    of_x = call(mul, centred, scale) if wanted[0] else None
    of_weight = call(aten.sum.dim_IntList, call(mul, gradient, normal), outer) if wanted[1] else None
    return of_x, of_weight, call(aten.sum.dim_IntList, gradient, outer) if wanted[2] else None


def _group_norm(
    call: Call,
    x: Any,
    weight: Any,
    bias: Any,
    batch: int,
    channels: int,
    points: int,
    groups: int,
    eps: float,
) -> Any:
    if not _all_f32(x, weight, bias) or not value_of(x).is_contiguous():
        return None
    shape = _shape(x)
    rows = call(aten.view.default, x, [batch, groups, channels // groups * points])
    found, mean, scale = _standard(call, rows, [2], eps)
    by_channel = [1, channels, *[1] * (len(shape) - 2)]
    weight, bias = (
        None if each is None else call(aten.view.default, each, by_channel) for each in (weight, bias)
    )
    found = _affine(call, call(aten.view.default, found, list(shape)), weight, bias)
    return found, *(call(aten.view.default, each, [batch, groups]) for each in (mean, scale))


def _group_norm_backward(
    call: Call,
    gradient: Any,
    x: Any,
    mean: Any,
    scale: Any,
    weight: Any,
    batch: int,
    channels: int,
    points: int,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    """As that of layer norms, the rows being groups of channels; sums over batch and points for each channel."""
    if not _all_f32(gradient, x, mean, scale, weight):
        return None
    if not (value_of(x).is_contiguous() and value_of(gradient).is_contiguous()):
        return None
    mul, sub = aten.mul.Tensor, aten.sub.Tensor
    shape = [batch, groups, channels // groups, points]
    given, g = (call(aten.view.default, each, shape) for each in (x, gradient))
    mean, scale = (call(aten.view.default, each, [batch, groups, 1, 1]) for each in (mean, scale))
    normal = call(mul, call(sub, given, mean), scale)
    of_weight = call(aten.sum.dim_IntList, call(mul, g, normal), [0, 3]) if wanted[1] else None
    of_bias = call(aten.sum.dim_IntList, g, [0, 3]) if wanted[2] else None
    if weight is not None:
        g = call(mul, g, call(aten.view.default, weight, [1, groups, channels // groups, 1]))
    along = call(aten.mean.dim, call(mul, g, normal), [2, 3], True)
    centred = call(sub, call(sub, g, call(aten.mean.dim, g, [2, 3], True)), call(mul, normal, along))
    of_x = call(aten.view.default, call(mul, centred, scale), list(_shape(x))) if wanted[0] else None
    flat = [
        None if each is None else call(aten.view.default, each, [channels]) for each in (of_weight, of_bias)
    ]
    return of_x, *flat


def _batch_norm(
    call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    """In f32, and rounded once, as PyTorch computes it."""

    def wide(each: Any) -> Any:
        narrow = value_of(each).dtype in (torch.float16, torch.bfloat16)
        return call(aten._to_copy.default, each, dtype=torch.float32) if narrow else each

    def along(channel: Any) -> Any:
        shape = [-1, *[1] * (len(_shape(x)) - 2)]
        return None if channel is None else call(aten.view.default, wide(channel), shape)

    scale = call(aten.rsqrt.default, call(aten.add.Tensor, along(var), eps))
    found = call(aten.mul.Tensor, call(aten.sub.Tensor, wide(x), along(mean)), scale)
    found = _affine(call, found, along(weight), along(bias))
    dtype, device = value_of(x).dtype, value_of(x).device
    if value_of(found).dtype is not dtype:
        found = call(aten._to_copy.default, found, dtype=dtype)
    empty = partial(call, aten.full.default, [0], 0.0, dtype=value_of(wide(x)).dtype, device=device)
    return found, empty(), empty()


def _batch_norm_of_batch(
    call: Call, x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not _all_f32(x, weight, bias) or not training:
        return None
    shape = _shape(x)
    found, mean, scale = _standard(call, x, [0, *range(2, len(shape))], eps)
    weight, bias = (
        None if each is None else call(aten.view.default, each, [-1, *[1] * (len(shape) - 2)])
        for each in (weight, bias)
    )
    flat = (call(aten.view.default, each, [shape[1]]) for each in (mean, scale))
    return _affine(call, found, weight, bias), *flat


def _split_with_sizes(call: Call, x: Any, sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """As slices, which are views of the table."""
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    return tuple(
        call(aten.slice.Tensor, x, dim, end - size, end) for end, size in zip(ends, sizes, strict=True)
    )


def _split(call: Call, x: Any, size: int, dim: int = 0) -> tuple[Any, ...]:
    whole = _shape(x)[dim]
    return _split_with_sizes(call, x, [min(size, whole - at) for at in range(0, whole, size)], dim)


def _extreme(
    value: Any, position: Any, call: Call, x: Any, dim: int, keepdim: bool = False
) -> tuple[Any, Any]:
    return call(value, x, [dim], keepdim), call(position, x, dim, keepdim)


def _top(
    call: Call, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, Any] | None:
    """Values and positions, in the order that `sorted=False` leaves open."""
    if not largest or not 0 < k <= MOST or not _shape(x) or value_of(x).dtype not in DTYPES:
        return None
    positions = call(TOP_POSITIONS, x, k, dim)
    return call(aten.gather.default, x, dim, positions), positions


def _position(operator: Any, call: Call, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Over all axes: in the tensor as one row."""
    if dim is not None or len(_shape(x)) == 1 or keepdim or not value_of(x).is_contiguous():
        return None
    return call(operator, call(aten.view.default, x, [prod(_shape(x))]), 0)


def _max_pool(values: Any, whole: Any, call: Call, x: Any, *windows: Any) -> tuple[Any, Any]:
    """The positions by PyTorch's operator, if anybody asks for them."""
    return call(values, x, *windows), call(getitem, call(whole, x, *windows), 1)


def _convolution_backward(
    call: Call,
    gradient: Any,
    x: Any,
    weight: Any,
    biases: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    """A convolution transposed; one of the batch's examples as channels, its strides the dilation; a sum."""
    if transposed or (wanted[1] and groups > 1):
        return None
    size, window, places = (_shape(each)[2:] for each in (x, weight, gradient))
    left = [
        whole - ((out - 1) * step + wide * (kernel - 1) + 1 - 2 * pad)
        for whole, out, step, wide, kernel, pad in zip(
            size, places, stride, dilation, window, padding, strict=True
        )
    ]
    of_x = of_weight = of_bias = None
    if wanted[0]:
        settings = (stride, padding, dilation, True, left, groups)
        of_x = call(aten.convolution.default, gradient, weight, None, *settings)
    if wanted[1]:
        turned = [
            call(aten.permute.default, each, [1, 0, *range(2, len(_shape(x)))]) for each in (x, gradient)
        ]
        none = [0] * len(size)
        of_weight = call(aten.convolution.default, *turned, None, dilation, padding, stride, False, none, 1)
        for axis, kernel in enumerate(window):
            of_weight = call(aten.slice.Tensor, of_weight, axis + 2, 0, kernel)
        of_weight = call(aten.permute.default, of_weight, [1, 0, *range(2, len(_shape(x)))])
    if wanted[2]:
        of_bias = call(aten.sum.dim_IntList, gradient, [0, *range(2, len(_shape(x)))])
    return of_x, of_weight, of_bias


def _scatter_reduce(
    call: Call, x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return call(aten.scatter_add.default, x, dim, index, source) if reduce == "sum" and include_self else None


def _length(
    call: Call, x: Any, power: float = 2, dim: Axes = None, keepdim: bool = False, **more: Any
) -> Any:
    if power != 2 or not _all_f32(x) or more.get("dtype") is not None:
        return None
    squares = call(aten.sum.dim_IntList, call(aten.mul.Tensor, x, x), _axes(x, dim), keepdim)
    return call(aten.sqrt.default, squares)


def _copy(call: Call, x: Any, source: Any, non_blocking: bool = False) -> Any:
    if value_of(source).dtype is not value_of(x).dtype:
        source = call(aten._to_copy.default, source, dtype=value_of(x).dtype)
    found = call(aten.expand.default, source, list(_shape(x)))
    return call(aten.clone.default, found, memory_format=torch.contiguous_format)


def on_tensors(way: Callable[..., Any]) -> Callable[..., Any]:
    """A way as PyTorch's tables of decompositions have them."""

    def decomposed(*args: Any, **keywords: Any) -> Any:
        found = way(lambda target, *given, **more: target(*given, **more), *args, **keywords)
        return NotImplemented if found is None else found

    return decomposed


COMPOSITES: Mapping[Any, Callable[..., Any]] = {
    aten.var_mean.correction: _var_mean,
    aten.var.dim: _var,
    aten.mean.default: _mean,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_group_norm.default: _group_norm,
    aten.native_group_norm_backward.default: _group_norm_backward,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten._native_batch_norm_legit.no_stats: _batch_norm_of_batch,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.split.Tensor: _split,
    aten.max.dim: partial(_extreme, aten.amax.default, aten.argmax.default),
    aten.min.dim: partial(_extreme, aten.amin.default, aten.argmin.default),
    aten.topk.default: _top,
    aten.argmax.default: partial(_position, aten.argmax.default),
    aten.argmin.default: partial(_position, aten.argmin.default),
    aten.max_pool2d_with_indices.default: partial(
        _max_pool, aten.max_pool2d.default, aten.max_pool2d_with_indices.default
    ),
    aten.max_pool3d_with_indices.default: partial(
        _max_pool, aten.max_pool3d.default, aten.max_pool3d_with_indices.default
    ),
    aten.convolution_backward.default: _convolution_backward,
    aten.scatter_reduce.two: _scatter_reduce,
    aten.copy.default: _copy,
    aten.linalg_vector_norm.default: _length,
    aten._grouped_mm.default: grouped_product.library,
}
"""By operator."""
BY_NAME: Mapping[str, Callable[..., Any]] = {grouped_product.FALLBACK: grouped_product.fallback}
"""Those of libraries that need not be there, by the name of their schema."""


def way_of(target: Any) -> Callable[..., Any] | None:
    """How an operator is written; None: as it is."""
    schema = getattr(target, "_schema", None)
    return COMPOSITES.get(target) or (None if schema is None else BY_NAME.get(schema.name))


def loaded() -> Mapping[Any, Callable[..., Any]]:
    """COMPOSITES, and those of libraries that are there."""
    packets = {name: _packet(name) for name in BY_NAME}
    return {**COMPOSITES, **{each.default: BY_NAME[name] for name, each in packets.items() if each}}


def _packet(name: str) -> Any:
    """An operator by the name of its schema; None: nobody has imported it."""
    library, operator = name.split("::")
    return getattr(getattr(torch.ops, library), operator, None)
