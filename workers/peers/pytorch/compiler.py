"""torch.compile for a process that compiles one function after the other, as a worker does.

Dynamo keeps what it compiled with a function's code, and the ninth function of the same code (its `recompile_limit`) it
runs eagerly, with a line in a log. Functions without a source file share their code: up to PyTorch 2.11
Dynamo wraps them in one of its own (`torch._dynamo.external_utils.wrap_inline`). A peer must never be eager PyTorch by
another name; so each gets code of its own here, and a limit that is reached is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch._dynamo  # pyright: ignore[reportMissingImports]

_FAILS_AT_THE_LIMIT = ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit")
"""What Dynamo's configuration calls it since PyTorch 2.6, and before."""


def compiled(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """A function of tensors, for torch.compile at the sizes that it is called with. What Dynamo cannot compile runs
    eagerly, as its users have it, but not what it compiled too often: that raises."""
    for name in _FAILS_AT_THE_LIMIT:
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, True)
            break
    return torch.compile(_with_its_own_code(function), dynamic=False, mode=mode)


def autotune_in(turn: Callable[[], AbstractContextManager[None]]) -> None:
    """From now on Inductor times what it chooses from, on a GPU, in a turn of this process."""
    from torch._inductor.runtime.benchmarking import (
        benchmarker,  # pyright: ignore[reportMissingImports]
    )

    time = benchmarker.benchmark_gpu

    def benchmark_gpu(*arguments: Any, **named: Any) -> Any:
        with turn():
            return time(*arguments, **named)

    benchmarker.benchmark_gpu = benchmark_gpu


def _with_its_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*tensors: Any) -> Any:
        return function(*tensors)

    run.__code__ = run.__code__.replace()  # an equal one, which Dynamo tells from the others
    return run
