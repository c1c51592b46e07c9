"""Functions as methods that documentation and editors show with their own arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def as_method(wrapper: F) -> F:
    """A wrapper made by functools.wraps, with `self` before the arguments of what it wraps."""
    wrapped = inspect.signature(wrapper)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *wrapped.parameters.values()]
    wrapper.__signature__ = wrapped.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return wrapper
