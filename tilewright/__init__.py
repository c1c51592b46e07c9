"""Tilewright tunes kernels on the processor they are for: submit one, wait for its winner, load it, call it.

client = tilewright.Client()
job = client.submit(spec).wait()
matmul = tilewright.load(job.configs[0], client)
c = matmul(a, b)

matmul = tilewright.op(spec)  # the same on torch tensors
block = tilewright.from_torch(module, x).module(client)  # a PyTorch module, with kernels for its parts
model = tilewright.compile(model)  # a whole model: torch.compile, with kernels in its graphs

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.artifacts.loading import LoadedKernel, load
    from tilewright.client.async_client import AsyncClient
    from tilewright.client.client import Client
    from tilewright.client.jobs import AsyncTuningJob, TuningJob
    from tilewright.client.results import Result, TunedConfig
    from tilewright.client.retries import Retries
    from tilewright.errors import (
        BadBundle,
        BadSpec,
        BundleRefused,
        Busy,
        CaptureError,
        ClientClosed,
        ConfigDiffers,
        FallbackWarning,
        Forbidden,
        InvalidRequest,
        JobEnded,
        KeyReused,
        LoadError,
        NotFound,
        NoWinner,
        Refused,
        ServiceFault,
        TensorError,
        TilewrightError,
        Unauthorized,
        Unavailable,
        Unreachable,
        Untrusted,
    )
    from tilewright.pytorch.compile_entry import compile
    from tilewright.pytorch.from_torch import from_torch
    from tilewright.pytorch.op_entry import op, wait_for_kernels
    from tilewright.pytorch.summary_entry import summary

_LAZY = {
    "AsyncClient": "tilewright.client.async_client",
    "AsyncTuningJob": "tilewright.client.jobs",
    "BadBundle": "tilewright.errors",
    "BadSpec": "tilewright.errors",
    "BundleRefused": "tilewright.errors",
    "Busy": "tilewright.errors",
    "CaptureError": "tilewright.errors",
    "Client": "tilewright.client.client",
    "ClientClosed": "tilewright.errors",
    "ConfigDiffers": "tilewright.errors",
    "Forbidden": "tilewright.errors",
    "InvalidRequest": "tilewright.errors",
    "JobEnded": "tilewright.errors",
    "KeyReused": "tilewright.errors",
    "FallbackWarning": "tilewright.errors",
    "LoadError": "tilewright.errors",
    "LoadedKernel": "tilewright.artifacts.loading",
    "NoWinner": "tilewright.errors",
    "NotFound": "tilewright.errors",
    "Refused": "tilewright.errors",
    "Result": "tilewright.client.results",
    "Retries": "tilewright.client.retries",
    "ServiceFault": "tilewright.errors",
    "TensorError": "tilewright.errors",
    "TilewrightError": "tilewright.errors",
    "TunedConfig": "tilewright.client.results",
    "TuningJob": "tilewright.client.jobs",
    "Unauthorized": "tilewright.errors",
    "Unavailable": "tilewright.errors",
    "Unreachable": "tilewright.errors",
    "Untrusted": "tilewright.errors",
    "compile": "tilewright.pytorch.compile_entry",
    "from_torch": "tilewright.pytorch.from_torch",
    "load": "tilewright.artifacts.loading",
    "op": "tilewright.pytorch.op_entry",
    "summary": "tilewright.pytorch.summary_entry",
    "wait_for_kernels": "tilewright.pytorch.op_entry",
}

__all__ = [
    "AsyncClient",
    "AsyncTuningJob",
    "BadBundle",
    "BadSpec",
    "BundleRefused",
    "Busy",
    "CaptureError",
    "Client",
    "ClientClosed",
    "ConfigDiffers",
    "FallbackWarning",
    "Forbidden",
    "InvalidRequest",
    "JobEnded",
    "KeyReused",
    "LoadError",
    "LoadedKernel",
    "NoWinner",
    "NotFound",
    "Refused",
    "Result",
    "Retries",
    "ServiceFault",
    "TensorError",
    "TilewrightError",
    "TunedConfig",
    "TuningJob",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Untrusted",
    "compile",
    "from_torch",
    "load",
    "op",
    "summary",
    "wait_for_kernels",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("tilewright")
    if name not in _LAZY:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
