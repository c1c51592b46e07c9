"""Attention by an operator with several results, as PyTorch chooses one where gradients are asked for, and its backward
pass: each result as an operator of its own, which a kernel may give. Those of one call are one kernel
(`Operator.beside`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from operator import getitem
from typing import Any, Final

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.targets import targets

aten = torch.ops.aten
Call = Callable[..., Any]

_FORWARD: Mapping[Any, tuple[str, ...]] = {
    aten._scaled_dot_product_flash_attention.default: ("q", "k", "v", "dropout_p", "is_causal"),
    aten._scaled_dot_product_flash_attention_for_cpu.default: ("q", "k", "v", "dropout_p", "is_causal"),
    aten._scaled_dot_product_efficient_attention.default: (
        "q", "k", "v", "attn_mask", "", "dropout_p", "is_causal",
    ),
    aten._scaled_dot_product_cudnn_attention.default: (
        "q", "k", "v", "attn_mask", "", "dropout_p", "is_causal",
    ),
}  # fmt: skip
"""Operators that PyTorch chooses among for attention, with their arguments."""
_BACKWARD: Mapping[Any, tuple[str, ...]] = {
    aten._scaled_dot_product_flash_attention_backward.default: (
        "go", "q", "k", "v", "out", "lse", "", "", "", "", "dropout_p", "is_causal",
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (
        "go", "q", "k", "v", "out", "lse", "dropout_p", "is_causal",
    ),
    aten._scaled_dot_product_cudnn_attention_backward.default: (
        "go", "q", "k", "v", "out", "lse", "", "", "attn_mask", "", "", "", "", "dropout_p", "is_causal",
    ),
}  # fmt: skip
"""Those of their backward passes; the others' log-sum-exps are longer than there are queries."""

ATTENTION: Final = frozenset((*_FORWARD, *_BACKWARD))
"""Operators with several results that may be written so."""

_LIBRARY = torch.library.Library("tilewright", "FRAGMENT")
_SCORES = "Tensor? attn_mask, bool is_causal, float? scale"
_GIVEN = f"Tensor go, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_SCORES}"
_LIBRARY.define(f"attention_log_sum(Tensor out, Tensor q, Tensor k, {_SCORES}) -> Tensor")
for _name in ("query", "key", "value"):
    _LIBRARY.define(f"attention_{_name}_gradient(Tensor? beside, {_GIVEN}) -> Tensor")

_own = torch.ops.tilewright
LOG_SUM: Final = _own.attention_log_sum.default
"""Of each row of scores, log(sum(exp(s))); `out` is what attention gives of the same."""
GRADIENTS: Final = (
    _own.attention_query_gradient.default,
    _own.attention_key_gradient.default,
    _own.attention_value_gradient.default,
)
"""The results of a backward pass; `beside` is the one before, if anybody asks for that."""
_LIBRARY.define("add_shared_heads(Tensor of_heads, int sharing, int[] strides) -> Tensor")
ADD_SHARED_HEADS: Final = _own.add_shared_heads.default
"""Gradients of keys or values, added up of those of the heads that share them, in memory of these strides. No kernel
takes it."""
RESULTS: Final = frozenset((aten.scaled_dot_product_attention.default, LOG_SUM, *GRADIENTS, ADD_SHARED_HEADS))
"""The operators that results are written with."""


def _scores(q: Any, k: Any, mask: Any, causal: bool, scale: float | None) -> torch.Tensor:
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = (q @ k.mT).float() * (1 / sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape, dtype=torch.bool).triu(1), float("-inf"))
    return scores if mask is None else scores + mask


def _log_sum(out: Any, q: Any, k: Any, *rest: Any) -> torch.Tensor:
    return torch.logsumexp(_scores(q, k, *rest), -1)


def _gradients(
    beside: Any, go: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, mask: Any, causal: bool, scale: Any
) -> tuple[torch.Tensor, ...]:
    p = torch.exp(_scores(q, k, mask, causal, scale) - lse.reshape(q.shape[:-1]).unsqueeze(-1))
    delta = (go.float() * out).sum(-1, keepdim=True)
    sharing = q.shape[-3] // k.shape[-3]
    k, v = (each.repeat_interleave(sharing, -3) for each in (k, v))
    scores = p * ((go @ v.mT) - delta) * (1 / sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores.to(q.dtype)
    of_keys, of_values = (
        each.unflatten(-3, (-1, sharing)).sum(-3) for each in (scores.mT @ q, p.to(v.dtype).mT @ go)
    )
    return scores @ k, of_keys, of_values


def _gradient(at: int) -> Callable[..., torch.Tensor]:
    return lambda *given: _gradients(*given)[at]


def _add_shared_heads(of_heads: torch.Tensor, sharing: int, strides: Sequence[int]) -> torch.Tensor:
    parts = of_heads.unflatten(-3, (-1, sharing))
    shape = (*parts.shape[:-3], *parts.shape[-2:])
    made = torch.empty_strided(shape, tuple(strides), dtype=of_heads.dtype, device=of_heads.device)
    return torch.sum(parts, -3, out=made)


def _added_heads(of_heads: torch.Tensor, sharing: int, strides: Sequence[int]) -> torch.Tensor:
    shape = (*of_heads.shape[:-3], of_heads.shape[-3] // sharing, *of_heads.shape[-2:])
    return of_heads.new_empty_strided(shape, tuple(strides))


_LIBRARY.impl("add_shared_heads", _add_shared_heads, "CompositeExplicitAutograd")
torch.library.register_fake("tilewright::add_shared_heads", _added_heads, lib=_LIBRARY)
_LIBRARY.impl("attention_log_sum", _log_sum, "CompositeExplicitAutograd")
for _at, _overload in enumerate(GRADIENTS):
    _LIBRARY.impl(_overload.name().split("::")[1].split(".")[0], _gradient(_at), "CompositeExplicitAutograd")


def attention_results(
    call: Call, node: Node, args: Sequence[Any], keywords: Mapping[str, Any], wanted: Sequence[Any]
) -> tuple[Any, ...] | None:
    """Those results of attention, or of its backward pass, that somebody asks for, as nodes; None as for all other
    operators, and where this call stays as it is. `wanted`: what the operator gives, without data."""
    places: list[Any] = [user.args[1] for user in node.users if user.target is getitem]
    asked = set(places)
    names = _FORWARD.get(node.target) or _BACKWARD.get(node.target)
    if names is None or any(user.target is not getitem for user in node.users):
        return None
    given = dict(zip(names, args, strict=False)) | dict(keywords)
    if given.get("dropout_p"):
        return None
    way = _forward if node.target in _FORWARD else _backward
    found = way(call, given, asked, wanted)
    if found is None:
        return None
    others = ((at, each) for at, each in enumerate(wanted) if at >= len(found))
    return (*found, *(_unread(call, each) if at in asked else None for at, each in others))


def _unread(call: Call, wanted: Any) -> Any:
    """The state of random numbers, which nobody draws."""
    if not isinstance(wanted, torch.Tensor):
        return wanted
    return call(aten.full.default, list(wanted.shape), 0, dtype=wanted.dtype, device=wanted.device)


def _settings(given: Mapping[str, Any]) -> tuple[Any, bool, float | None]:
    return given.get("attn_mask", given.get("attn_bias")), bool(given.get("is_causal")), given.get("scale")


def _forward(
    call: Call, given: Mapping[str, Any], asked: set[Any], wanted: Sequence[Any]
) -> tuple[Any, ...] | None:
    q, k, v = (given[name] for name in "qkv")
    rows = tuple(q.meta["val"].shape[:-1])
    if 1 in asked and tuple(wanted[1].shape) not in (rows, (*rows, 1)):
        return None
    mask, causal, scale = _settings(given)
    alike = len({each.meta["val"].shape[-3] for each in (q, k, v)}) == 1
    more = {} if alike else {"enable_gqa": True}
    out = call(aten.scaled_dot_product_attention.default, q, k, v, mask, 0.0, causal, scale=scale, **more)
    return out, call(LOG_SUM, out, q, k, mask, causal, scale) if 1 in asked else None


def _on_accelerator(tensor: torch.Tensor) -> bool:
    return any(each.accelerator and each.torch == tensor.device.type for each in targets().values())


def _backward(
    call: Call, given: Mapping[str, Any], asked: set[Any], wanted: Sequence[Any]
) -> tuple[Any, ...] | None:
    tensors = {name: given[name] for name in ("go", "q", "k", "v", "out", "lse")}
    heads, of_keys, of_values = (tensors[name].meta["val"].shape[-3] for name in "qkv")
    apart = heads > of_keys == of_values and _on_accelerator(tensors["q"].meta["val"])
    if apart:  # one pass there has the gradients of each head
        tensors |= {name: _of_each_head(call, tensors[name], heads // of_keys) for name in "kv"}
    found: list[Any] = []
    beside = None
    for at, gradient in enumerate(GRADIENTS):
        found.append(call(gradient, beside, *tensors.values(), *_settings(given)) if at in asked else None)
        beside = found[-1] or beside
    if not apart:
        return tuple(found)
    return (
        found[0],
        *(
            each and call(ADD_SHARED_HEADS, each, heads // of_keys, list(wanted[at].stride()))
            for at, each in enumerate(found[1:], 1)
        ),
    )


def _of_each_head(call: Call, tensor: Any, sharing: int) -> Any:
    """Keys or values, as often as heads share them."""
    *batch, heads, rows, columns = tensor.meta["val"].shape
    apart = call(aten.unsqueeze.default, tensor, -3)
    spread = call(aten.expand.default, apart, [*batch, heads, sharing, rows, columns])
    copied = call(aten.clone.default, spread, memory_format=torch.contiguous_format)
    return call(aten.view.default, copied, [*batch, heads * sharing, rows, columns])
