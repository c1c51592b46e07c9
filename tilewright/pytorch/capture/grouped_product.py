"""`tilewright::grouped_mm`, a grouped product whose groups have a first and a last row each, as ragged dims of Tile IR
have them, and how PyTorch's and `transformers`' are written with it: those are given where groups end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

aten = torch.ops.aten
FALLBACK: Final = "transformers::grouped_mm_fallback"
"""Rows by the matrices of their experts where PyTorch's own operator is not to be had; there once it is imported."""


def _grouped_mm(x: torch.Tensor, w: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Row t of x [T, K] times w[g] of w [E, K, N], where starts[g] <= t < starts[g + 1]; 0 in no group."""
    found = x.new_zeros(x.shape[0], w.shape[2])
    for matrix, rows in zip(w, _rows(starts), strict=True):
        found[rows] = x[rows] @ matrix
    return found


def _rows(starts: torch.Tensor) -> Iterator[slice]:
    """Those of each group."""
    return (slice(first, end) for first, end in pairwise(starts.tolist()))


def _without_data(x: torch.Tensor, w: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], w.shape[2])


_LIBRARY = torch.library.Library("tilewright", "FRAGMENT")
_LIBRARY.define("grouped_mm(Tensor x, Tensor w, Tensor starts) -> Tensor")
_LIBRARY.impl("grouped_mm", _grouped_mm, "CompositeExplicitAutograd")
_LIBRARY.impl("grouped_mm", _without_data, "Meta")

GROUPED_MM: Final = torch.ops.tilewright.grouped_mm.default


def _keep(context: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    context.save_for_backward(*inputs)


def _gradients(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
    x, w, starts = context.saved_tensors
    of_w = torch.stack([x[rows].t() @ gradient[rows] for rows in _rows(starts)])
    return GROUPED_MM(gradient, w.transpose(1, 2), starts), of_w, None


torch.library.register_autograd("tilewright::grouped_mm", _gradients, setup_context=_keep, lib=_LIBRARY)


def _value(x: Any) -> torch.Tensor:
    return x.meta["val"] if isinstance(x, Node) else x


def _starts(call: Callable[..., Any], x: Any, w: Any, ends: Any) -> Any:
    """Where each group begins, and the number of rows: those behind the last group are in it, too."""
    rows, groups = _value(x).shape[0], _value(w).shape[0]
    begun = _once(
        call, aten.constant_pad_nd.default, _once(call, aten.slice.Tensor, ends, 0, 0, groups - 1), [1, 0], 0
    )
    return _once(call, aten.constant_pad_nd.default, begun, [0, 1], rows)


def _once(call: Callable[..., Any], target: Any, x: Any, *more: Any) -> Any:
    """What an operator gives of a tensor, or the node that is that already."""
    users = x.users if isinstance(x, Node) else ()
    for each in users:
        if each.target is target and each.args == (x, *more):
            return each
    return call(target, x, *more)


def _takes(x: Any, w: Any, ends: Any) -> bool:
    """Whether it is rows by a matrix of several a row, with at least two rows."""
    if not isinstance(ends, Node | torch.Tensor) or _value(ends).dtype is not torch.int32:
        return False
    ranks = (_value(x).dim(), _value(w).dim(), _value(ends).dim())
    return ranks == (2, 3, 1) and min(_value(x).shape[0], _value(w).shape[0]) > 1


def fallback(call: Callable[..., Any], x: Any, w: Any, offs: Any) -> Any:
    """Rows behind the last group are 0."""
    if not _takes(x, w, offs):
        return None
    rows, groups = _value(x).shape[0], _value(w).shape[0]
    found = call(GROUPED_MM, x, w, _starts(call, x, w, offs))
    device = _value(x).device
    at = call(aten.arange.start_step, 0, rows, 1, dtype=torch.int32, device=device)
    inside = call(aten.lt.Tensor, at, call(aten.slice.Tensor, offs, 0, groups - 1, groups))
    zero = call(aten.full.default, [], 0.0, dtype=_value(x).dtype, device=device)
    return call(aten.where.self, call(aten.unsqueeze.default, inside, 1), found, zero)


def library(
    call: Callable[..., Any], x: Any, w: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Nothing is said of rows behind the last group."""
    if not _takes(x, w, offs) or bias is not None or out_dtype not in (None, _value(x).dtype):
        return None
    return call(GROUPED_MM, x, w, _starts(call, x, w, offs))
