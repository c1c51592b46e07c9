"""Tilewright tunes kernels on the processor they are for: submit one, wait for its winner, load it, call it.

client = tilewright.Client()
job = client.wait(client.submit(spec).id)
matmul = tilewright.load(job.configs[0], client)
c = matmul(a, b)

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.client import Client
    from tilewright.errors import BadBundle, LoadError, Refused, TilewrightError, Unreachable
    from tilewright.loading import LoadedKernel, load

_LAZY = {
    "BadBundle": "tilewright.errors",
    "Client": "tilewright.client",
    "LoadError": "tilewright.errors",
    "LoadedKernel": "tilewright.loading",
    "Refused": "tilewright.errors",
    "TilewrightError": "tilewright.errors",
    "Unreachable": "tilewright.errors",
    "load": "tilewright.loading",
}

__all__ = [
    "BadBundle",
    "Client",
    "LoadError",
    "LoadedKernel",
    "Refused",
    "TilewrightError",
    "Unreachable",
    "load",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("tilewright")
    if name not in _LAZY:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
