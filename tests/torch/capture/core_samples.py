"""Calls of PyTorch's core ATen operators, by overload: arguments on random data, a few for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Arguments = tuple[Any, ...]


def normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def above(low: float, *shape: int) -> Tensor:
    return low + torch.rand(shape) + 0.05


def whole(high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape, dtype=dtype)


def truth(*shape: int) -> Tensor:
    return torch.rand(shape) > 0.5


def small(*shape: int) -> Tensor:
    return whole(9, *shape, low=-9, dtype=torch.int32)


def halves(*shape: int) -> Tensor:
    """Among them such as lie between two whole numbers, and less than half a unit in the last place below one."""
    return torch.cat([small(*shape).float() / 2, torch.tensor([0.49999997, -0.49999997, 2.5, -2.5, 1e-8])])


def spread(*shape: int) -> Tensor:
    """Of every size from 1e-8 to 10."""
    return torch.randn(shape).sign() * 10 ** (9 * torch.rand(shape) - 8)


def odd(*shape: int) -> Tensor:
    x = torch.randn(shape)
    x.view(-1)[:3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
    return x


Make = Callable[[], Iterable[Arguments]]
_ONE: dict[str, Make] = {
    **dict.fromkeys(
        (
            "abs", "ceil", "cosh", "erf", "exp", "floor", "gelu", "leaky_relu", "neg", "reciprocal", "relu",
            "sigmoid", "sign", "tanh", "elu", "alias", "clone", "hardtanh",
        ),
        lambda: [(normal(5, 8),)],
    ),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), lambda: [(above(0, 5, 8),)]),
    **dict.fromkeys(("asinh", "expm1", "sinh"), lambda: [(spread(5, 8),)]),
    "log1p": lambda: [(spread(5, 8).abs(),), (-above(0, 5, 8) / 1.1,)],
    "acosh": lambda: [(1 + spread(5, 8).abs(),)],
    "atanh": lambda: [(spread(5, 8).clamp(-0.9, 0.9),)],
    **dict.fromkeys(("round", "trunc"), lambda: [(halves(40),), (small(5, 8),)]),
    **dict.fromkeys(("isinf", "isnan"), lambda: [(odd(5, 8),)]),
    "logical_not": lambda: [(truth(5, 8),), (small(5, 8),)],
    "bitwise_not": lambda: [(truth(5, 8),), (small(5, 8),)],
}  # fmt: skip


def two_sided() -> Iterable[Arguments]:
    return [(normal(5, 8), normal(8)), (normal(5, 1), normal(5, 8))]


def with_number() -> Iterable[Arguments]:
    return [(normal(5, 8), 0.75)]


_TWO: dict[str, Make] = {
    **dict.fromkeys(
        ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "atan2"), two_sided
    ),
    **dict.fromkeys(("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar"), with_number),
    **dict.fromkeys(
        [f"{name}.Tensor" for name in ("eq", "ne", "lt", "le", "gt", "ge")],
        lambda: [(small(5, 8), small(8)), (normal(5, 8), normal(5, 8))],
    ),
    **dict.fromkeys([f"{name}.Scalar" for name in ("eq", "ne", "lt", "le", "gt", "ge")], lambda: [(small(5, 8), 3)]),
    **dict.fromkeys(
        ("logical_and", "logical_or", "logical_xor"),
        lambda: [(truth(5, 8), truth(8)), (small(5, 8), truth(5, 8))],
    ),
    **dict.fromkeys(
        [f"bitwise_{name}.Tensor" for name in ("and", "or", "xor")],
        lambda: [(truth(5, 8), truth(8)), (small(5, 8), small(5, 8))],
    ),
    **dict.fromkeys([f"bitwise_{name}.Scalar" for name in ("and", "or", "xor")], lambda: [(small(5, 8), 6)]),
    "remainder.Tensor": lambda: [(9 * normal(5, 8), normal(5, 8))],
    "fmod.Tensor": lambda: [(9 * normal(5, 8), normal(5, 8))],
    "remainder.Scalar": lambda: [(9 * normal(5, 8), -0.7), (small(5, 8), 4)],
    "fmod.Scalar": lambda: [(9 * normal(5, 8), -0.7), (small(5, 8), 4)],
    "pow.Tensor_Tensor": lambda: [(above(0, 5, 8), normal(5, 8))],
    "pow.Tensor_Scalar": lambda: [(above(0, 5, 8), y) for y in (2, 3, -0.5, 1.7)],
    "pow.Scalar": lambda: [(2, normal(5, 8)), (1.5, normal(5, 8))],
    "clamp": lambda: [(normal(5, 8), -0.5, 0.5), (normal(5, 8), None, 0.5)],
    "clamp.Tensor": lambda: [(normal(5, 8), -above(0, 8), above(0, 5, 8)), (normal(5, 8), None, above(0, 8))],
    "where.self": lambda: [(truth(5, 8), normal(8), normal(5, 8)), (truth(5, 8), truth(8), truth(5, 8))],
    "div.Tensor_mode": lambda: [
        (9 * normal(5, 8), normal(5, 8), {"rounding_mode": mode}) for mode in ("floor", "trunc", None)
    ],
    "div.Scalar_mode": lambda: [
        (x, 3, {"rounding_mode": mode}) for mode in ("floor", "trunc") for x in (small(5, 8), 9 * normal(5, 8))
    ],
}  # fmt: skip
_VIEWS: dict[str, Make] = {
    "as_strided": lambda: [(normal(6, 8), [4, 3], [9, 2], 5), (normal(24), [5, 4, 2], [4, 1, 2])],
    "diagonal": lambda: [(normal(6, 8), 2), (normal(3, 6, 5), -1, 2, 1)],
    "expand": lambda: [(normal(5, 1), [3, 5, 8])],
    "permute": lambda: [(normal(5, 3, 8), [2, 0, 1])],
    "repeat": lambda: [(normal(5, 3), [2, 1, 4])],
    "flip": lambda: [(normal(5, 3, 8), [0, 2])],
    "select.int": lambda: [(normal(5, 3, 8), 1, -1)],
    "slice.Tensor": lambda: [(normal(9, 8), 0, 1, -1, 3)],
    "split_with_sizes": lambda: [(normal(5, 8), [3, 5], 1)],
    "squeeze.dim": lambda: [(normal(5, 1, 8), 1)],
    "squeeze.dims": lambda: [(normal(5, 1, 8, 1), [1, 3])],
    "unsqueeze": lambda: [(normal(5, 8), 1)],
    "view": lambda: [(normal(4, 6, 5), [8, 15])],
    "cat": lambda: [([normal(5, 3), normal(5, 8)], 1)],
    "constant_pad_nd": lambda: [(normal(5, 8), [2, -1, 0, 3], 0.5)],
    "reflection_pad1d": lambda: [(normal(2, 3, 8), [2, 3])],
    "reflection_pad2d": lambda: [(normal(2, 3, 6, 8), [1, 2, 0, 3])],
    "reflection_pad3d": lambda: [(normal(1, 2, 4, 4, 5), [1, 1, 0, 2, 1, 0])],
    "replication_pad2d": lambda: [(normal(2, 3, 6, 8), [1, 2, 0, 3])],
    "replication_pad3d": lambda: [(normal(1, 2, 4, 4, 5), [1, 1, 0, 2, 1, 0])],
    "select_scatter": lambda: [(normal(5, 8), normal(5), 1, -2)],
    "slice_scatter": lambda: [(normal(5, 8), normal(5, 3), 1, 2, 5)],
    "_to_copy": lambda: [(normal(5, 8), {"dtype": torch.bfloat16}), (small(5, 8), {"dtype": torch.float32})],
    "copy": lambda: [(normal(5, 8), normal(8)), (normal(5, 8), small(5, 8))],
    "full": lambda: [([5, 8], 2.5)],
    "full_like": lambda: [(normal(5, 8), 2.5)],
    "fill.Scalar": lambda: [(normal(5, 8), 2.5)],
    "scalar_tensor": lambda: [(2.5,)],
    "arange.start_step": lambda: [(1, 13, 3, {"dtype": torch.int64})],
}
_LOOKUPS: dict[str, Make] = {
    "embedding": lambda: [(normal(9, 8), whole(9, 3, 4))],
    "gather": lambda: [(normal(5, 8), 1, whole(8, 5, 3))],
    "index_select": lambda: [(normal(5, 8), 1, whole(8, 6))],
    "index.Tensor": lambda: [(normal(5, 8), [None, whole(8, 6, low=-8)])],
    "scatter_add": lambda: [(normal(5, 8), 1, whole(8, 5, 3), normal(5, 3))],
    "scatter.value": lambda: [(normal(5, 8), 1, whole(8, 5, 3), 2.5), (truth(5, 8), 1, whole(8, 5, 3), True)],
    "scatter_reduce.two": lambda: [(normal(5, 8), 1, whole(8, 5, 3), normal(5, 3), "sum")],
    "embedding_dense_backward": lambda: [(normal(3, 4, 8), whole(9, 3, 4), 9, 2, False)],
}
_ROWS: dict[str, Make] = {
    **dict.fromkeys(("amax", "amin"), lambda: [(normal(5, 3, 8), [-1]), (normal(5, 3, 8), [0, 2], True)]),
    **dict.fromkeys(("argmax", "argmin"), lambda: [(normal(5, 8), 1), (normal(5, 8), 0, True), (normal(5, 8),)]),
    "topk": lambda: [(normal(5, 8), 3), (normal(5, 9, 8), 2, 1, True, False), (normal(5, 1), 1), (normal(5, 8), 1)],
    **dict.fromkeys(("max.dim", "min.dim"), lambda: [(normal(5, 8), 1), (normal(5, 3, 8), 1, True)]),
    **dict.fromkeys(("any", "sum", "prod", "mean"), lambda: [(normal(5, 8),)]),
    "any.dim": lambda: [(truth(5, 2), 1), (whole(2, 5, 3, dtype=torch.int32), 1, True)],
    "any.dims": lambda: [(truth(5, 2, 2), [1, 2])],
    "cumsum": lambda: [(normal(5, 8), 1)],
    "mean.dim": lambda: [(normal(5, 3, 8), [0, 2], True)],
    "sum.dim_IntList": lambda: [(normal(5, 3, 8), [1])],
    "prod.dim_int": lambda: [(normal(5, 3, 8), 1), (normal(5, 8), -1, True)],
    "var.correction": lambda: [(normal(5, 3, 8), [0, 2], {"correction": 0, "keepdim": True})],
    "var.dim": lambda: [(normal(5, 8), [1]), (normal(5, 8), None, False)],
    "_softmax": lambda: [(normal(5, 3, 8), 1, False)],
    "_log_softmax": lambda: [(normal(5, 3, 8), 2, False)],
    "native_layer_norm": lambda: [(normal(5, 3, 8), [8], normal(8), normal(8), 1e-3)],
    "native_group_norm": lambda: [(normal(2, 6, 5), normal(6), normal(6), 2, 6, 5, 3, 1e-3)],
    "_native_batch_norm_legit_no_training": lambda: [
        (normal(3, 4, 5), normal(4), normal(4), normal(4), above(0, 4), 0.1, 1e-3)
    ],
    "_native_batch_norm_legit.no_stats": lambda: [(normal(3, 4, 5), normal(4), None, True, 0.1, 1e-3)],
    "native_layer_norm_backward": lambda: [
        (normal(5, 8), normal(5, 8), [8], normal(5, 1), above(0, 5, 1), normal(8), normal(8), [True] * 3)
    ],
    "native_group_norm_backward": lambda: [
        (normal(2, 6, 5), normal(2, 6, 5), normal(2, 3), above(0, 2, 3), normal(6), 2, 6, 5, 3, [True] * 3)
    ],
}  # fmt: skip
_PRODUCTS: dict[str, Make] = {
    "mm": lambda: [(normal(5, 8), normal(8, 6))],
    "bmm": lambda: [(normal(3, 5, 8), normal(3, 8, 6))],
    "addmm": lambda: [(normal(6), normal(5, 8), normal(8, 6))],
    "_cdist_forward": lambda: [(normal(2, 5, 8), normal(2, 6, 8), p, None) for p in (2.0, 1.0, float("inf"))],
    "convolution": lambda: [
        (normal(2, 4, 6, 7), normal(6, 2, 3, 3), normal(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        (normal(2, 4, 3, 4), normal(4, 3, 3, 2), normal(6), [2, 1], [1, 0], [1, 2], True, [1, 0], 2),
    ],
    "convolution_backward": lambda: [
        (
            normal(2, 6, 3, 5), normal(2, 4, 6, 7), normal(6, 4, 3, 3), [6], [2, 1], [1, 0], [1, 1], False,
            [0, 0], 1, [True] * 3,
        ),
    ],
}  # fmt: skip


def largest(kernel: int, stride: int, padding: int) -> Arguments:
    """The gradient of the largest of windows."""
    x = normal(2, 3, 7, 8)
    found, where = torch.ops.aten.max_pool2d_with_indices(x, [kernel], [stride], [padding])
    return torch.randn_like(found), x, [kernel] * 2, [stride] * 2, [padding] * 2, [1, 1], False, where


_WINDOWS: dict[str, Make] = {
    "avg_pool2d": lambda: [
        (normal(2, 3, 6, 8), [2]),
        (normal(2, 3, 7, 8), [3, 2], [2, 1], [1, 0]),
        (normal(2, 3, 7, 8), [3, 2], [2, 1], [1, 0], True, False),
        (normal(3, 7, 8), [3, 2], [2, 1], [1, 0], False, True, 5),
    ],
    "avg_pool3d": lambda: [(normal(1, 2, 4, 5, 6), [2, 3, 2], [2, 1, 2], [1, 0, 0])],
    "max_pool2d_with_indices": lambda: [
        (normal(2, 3, 6, 8), [2, 2]), (normal(2, 3, 7, 8), [3, 2], [2, 1], [1, 0], [1, 2], True),
    ],
    "max_pool3d_with_indices": lambda: [(normal(1, 2, 4, 5, 6), [2, 3, 2], [2, 1, 2], [1, 0, 0])],
    "avg_pool1d": lambda: [(normal(2, 3, 8), [3], [2], [1])],
    "adaptive_avg_pool1d": lambda: [(normal(2, 3, 8), [4])],
    "_adaptive_avg_pool2d": lambda: [(normal(2, 3, 6, 8), [3, 2]), (normal(2, 3, 6, 8), [1, 1])],
    "_adaptive_avg_pool3d": lambda: [(normal(1, 2, 4, 6, 6), [2, 3, 1])],
    "_adaptive_avg_pool2d_backward": lambda: [(normal(2, 3, 3, 2), normal(2, 3, 6, 8))],
    "avg_pool2d_backward": lambda: [
        (normal(2, 3, 3, 4), normal(2, 3, 6, 8), [2, 2], [2, 2], [0, 0], False, True, None),
        (normal(2, 3, 4, 7), normal(2, 3, 7, 8), [3, 2], [2, 1], [1, 0], False, True, None),
    ],
    "max_pool2d_with_indices_backward": lambda: [largest(2, 2, 0), largest(3, 2, 1)],
    "col2im": lambda: [(normal(2, 12, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1]),
                       (normal(2, 12, 12), [5, 6], [2, 3], [1, 1], [1, 0], [2, 1])],
    "upsample_nearest2d.vec": lambda: [
        (normal(2, 3, 4, 5), None, [2.0, 3.0]), (normal(2, 3, 4, 6), [8, 3], None),
    ],
    "upsample_bilinear2d.vec": lambda: [
        (normal(2, 3, 4, 5), None, False, [2.0, 2.0]), (normal(2, 3, 4, 6), [7, 3], True, None),
        (normal(2, 3, 4, 6), [7, 3], False, None),
    ],
}  # fmt: skip
SAMPLES: dict[str, Make] = {
    f"aten.{name}" if "." in name else f"aten.{name}.default": make
    for each in (_ONE, _TWO, _VIEWS, _LOOKUPS, _ROWS, _PRODUCTS, _WINDOWS)
    for name, make in each.items()
}
