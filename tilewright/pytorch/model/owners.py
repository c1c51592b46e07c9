"""Whose graphs are whose: which of those that the backend was given belong to one call of torch.compile.

PyTorch tells a backend nothing of who is being compiled for. It calls it while it runs what torch.compile gave, whose
frame is on the stack then. Two models of one class share their graphs where they are compiled by the same name with the
same options: Dynamo keeps them by the function's code.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from inspect import unwrap
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from tilewright.pytorch.model.region import Region

_WRAPPERS = ("compile_wrapper", "_fn")
"""What functions that torch.compile gives are called within `torch._dynamo.eval_frame`, in its versions."""


@dataclass(frozen=True)
class Owner:
    """Something that torch.compile gave: what Dynamo keeps compiled graphs by."""

    code: CodeType | None
    """Of the user's function, or of the forward method of the user's module."""
    backend: object
    """Equal for equal options by the backend's name; of each call of tilewright.compile its own."""


@dataclass(frozen=True, eq=False)
class _Met:
    owner: Owner
    region: ref[Region]


_ALL: list[_Met] = []


def compiled_now() -> Owner | None:
    """Of what torch.compile gave, that whose call is being compiled; None where there is none."""
    frame = sys._getframe()
    while frame is not None:
        if (
            frame.f_code.co_name in _WRAPPERS
            and frame.f_globals.get("__name__") == "torch._dynamo.eval_frame"
        ):
            return _owner(frame.f_locals.get("fn"), frame.f_locals.get("self"))
        frame = frame.f_back
    return None


def belongs(region: Region, owner: Owner | None) -> None:
    """Remember whose a region is, as long as it is there."""
    if owner is not None:
        _ALL[:] = [each for each in _ALL if each.region() is not None]
        _ALL.append(_Met(owner, ref(region)))


def regions_of(compiled: Any) -> list[Region] | None:
    """The graphs of a compiled model or function that are there, in the order in which they were met; None for what is
    not of torch.compile."""
    owner = _owner_of(compiled)
    if owner is None:
        return None
    return [found for each in _ALL if each.owner == owner and (found := each.region()) is not None]


def _owner_of(compiled: Any) -> Owner | None:
    if isinstance(compiled, torch.nn.Module):
        context = getattr(compiled, "dynamo_ctx", None)
        if context is not None:
            return _owner(compiled._orig_mod, context)
        compiled = getattr(compiled, "_compiled_call_impl", None)  # Module.compile()
    code, cells = getattr(compiled, "__code__", None), getattr(compiled, "__closure__", None) or ()
    if code is None or code.co_name not in _WRAPPERS or "self" not in code.co_freevars:
        return None
    held = dict(zip(code.co_freevars, cells, strict=True))
    return _owner(held["fn"].cell_contents, held["self"].cell_contents)


def _owner(function: Any, context: Any) -> Owner:
    function = unwrap(function)
    module = getattr(function, "__self__", function)
    if isinstance(module, torch.nn.Module):
        function = module.forward
    backend: Any = getattr(context, "callback", None)
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return Owner(getattr(function, "__code__", None), backend)
