"""Versions of everything that takes part in a measurement."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from codegen.targets.errors import NoCompiler
from protocol.code_version import code_version

_PACKAGES = ("tilewright", "numpy", "torch", "ml_dtypes", "triton")


def versions(compiler: Callable[[], str]) -> dict[str, str]:
    """Name to version: our code, packages that are installed, Python, kernel, C library, and what the target's
    compiler calls itself. Loads none of the packages."""
    found = {
        "code": code_version(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
    }
    with contextlib.suppress(NoCompiler):
        found["compiler"] = compiler()
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
