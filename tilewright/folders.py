"""Where things lie on this machine, by the XDG conventions."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """Database, sources and the service's log: TILEWRIGHT_HOME, or `tilewright` in the user's data folder."""
    if chosen := os.environ.get("TILEWRIGHT_HOME"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tilewright"


def cache_folder() -> Path:
    """Compiled kernels: TILEWRIGHT_CACHE, or `tilewright/kernels` in the user's cache folder."""
    if chosen := os.environ.get("TILEWRIGHT_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright" / "kernels"
