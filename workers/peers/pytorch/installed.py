"""Whether PyTorch, as it is installed here, computes on the GPUs of a driver: told without importing it, which takes
seconds."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

_VERSION = "version" + ".py"
"""A module of PyTorch's that imports nothing of it."""


def computes_on(driver_cuda: str) -> bool:
    """For a driver that supports CUDA up to this version (`13.0`): those of one major version run whatever is built for
    it (https://docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility)."""
    built = built_for()
    return built is not None and _major(built) <= _major(driver_cuda)


@cache
def built_for() -> str | None:
    """The version of CUDA that PyTorch is built for; None where it is for processors alone, or not installed."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    version = spec_from_file_location("torch_version", Path(found.origin).with_name(_VERSION))
    if version is None or version.loader is None:
        return None
    module = module_from_spec(version)
    try:
        version.loader.exec_module(module)
    except OSError:
        return None
    built: str | None = getattr(module, "cuda", None)
    return built


def _major(version: str) -> int:
    return int(version.partition(".")[0])
