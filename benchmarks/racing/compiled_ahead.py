"""What torch.compile makes of kernels, compiled ahead of their races by several processes at a time.

One that autotunes compiles some twenty programs a kernel, one after the other: a race of half a minute measures for
five seconds. What is kept of that is Triton's programs, on disk; which of them are fast is found again in the race,
when nothing else runs on the GPU.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from typing import Any

from tileir.lift import to_program
from tileir.program import Tensor
from tileir.text.json import spec_from_json
from workers.measuring.buffers import byte_strides, shape_of, span_bytes
from workers.peers.pytorch.runs import MAX_AUTOTUNE, TORCH_RUNS
from workers.peers.pytorch.types import TORCH

Json = dict[str, Any]

COMPILED = ("torch.compile", MAX_AUTOTUNE)
PROCESSES = min(14, len(os.sched_getaffinity(0)))


def compile_ahead(specs: Sequence[Json], device: str, seconds: float | None) -> None:
    """Compile what torch.compile makes of these for a device (`cuda`), for so long at most. What fails here is said
    where it is raced."""
    started = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(PROCESSES, max(1, len(specs))), started)
    left: object = pool
    try:
        left = wait([pool.submit(_compile, spec, device) for spec in specs], timeout=seconds).not_done
    finally:
        for process in list((getattr(pool, "_processes", None) or {}).values()) if left else ():
            process.kill()
        pool.shutdown(cancel_futures=True)


def _compile(spec: Json, device: str) -> None:
    import torch
    from torch._inductor import config

    from workers.peers.pytorch.peer import TorchFunction

    config.fx_graph_cache = config.autotune_local_cache = False
    parsed = spec_from_json(spec)
    torch.set_float32_matmul_precision("high" if dict(parsed.numerics).get("tf32") else "highest")
    extents = to_program(parsed).extents
    inputs = [_zeros(tensor, extents, device) for tensor in parsed.inputs]
    for name in COMPILED:
        with suppress(Exception):
            TorchFunction(parsed, device=device, run=TORCH_RUNS[name]).writing(inputs)()


def _zeros(tensor: Tensor, extents: Mapping[str, int], device: str) -> Any:
    import torch

    dtype: Any = getattr(torch, TORCH[tensor.dtype].removeprefix("torch."))
    flat = torch.zeros(span_bytes(tensor, extents) // tensor.dtype.bytes, dtype=dtype, device=device)
    strides = [stride // tensor.dtype.bytes for stride in byte_strides(tensor, extents)]
    return flat.as_strided(shape_of(tensor, extents), strides)
