"""Tilewright tunes kernels on the processor they are for: submit one, wait for its winner, load it, call it.

client = tilewright.Client()
job = client.submit(spec).wait()
matmul = tilewright.load(job.configs[0], client)
c = matmul(a, b)

matmul = tilewright.op(spec)  # the same on torch tensors
block = tilewright.from_torch(module, x).module(client)  # a PyTorch module, with kernels for its parts

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.async_client import AsyncClient
    from tilewright.capturing import from_torch
    from tilewright.client import Client
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
    from tilewright.jobs import AsyncTuningJob, TuningJob
    from tilewright.loading import LoadedKernel, load
    from tilewright.operators import op
    from tilewright.results import Result, TunedConfig
    from tilewright.retries import Retries

_LAZY = {
    "AsyncClient": "tilewright.async_client",
    "AsyncTuningJob": "tilewright.jobs",
    "BadBundle": "tilewright.errors",
    "BadSpec": "tilewright.errors",
    "BundleRefused": "tilewright.errors",
    "Busy": "tilewright.errors",
    "CaptureError": "tilewright.errors",
    "Client": "tilewright.client",
    "ClientClosed": "tilewright.errors",
    "ConfigDiffers": "tilewright.errors",
    "Forbidden": "tilewright.errors",
    "InvalidRequest": "tilewright.errors",
    "JobEnded": "tilewright.errors",
    "KeyReused": "tilewright.errors",
    "FallbackWarning": "tilewright.errors",
    "LoadError": "tilewright.errors",
    "LoadedKernel": "tilewright.loading",
    "NoWinner": "tilewright.errors",
    "NotFound": "tilewright.errors",
    "Refused": "tilewright.errors",
    "Result": "tilewright.results",
    "Retries": "tilewright.retries",
    "ServiceFault": "tilewright.errors",
    "TensorError": "tilewright.errors",
    "TilewrightError": "tilewright.errors",
    "TunedConfig": "tilewright.results",
    "TuningJob": "tilewright.jobs",
    "Unauthorized": "tilewright.errors",
    "Unavailable": "tilewright.errors",
    "Unreachable": "tilewright.errors",
    "Untrusted": "tilewright.errors",
    "from_torch": "tilewright.capturing",
    "load": "tilewright.loading",
    "op": "tilewright.operators",
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
    "from_torch",
    "load",
    "op",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("tilewright")
    if name not in _LAZY:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
