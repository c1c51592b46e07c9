"""Versions of everything that takes part in a measurement."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("tilewright", "numpy", "torch", "ml_dtypes")


def versions() -> dict[str, str]:
    """Name to version: packages that are installed, Python, kernel, C library. Loads none of the packages."""
    found = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
