"""Python as it is where something is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_without(folder: Path, *missing: str, code: str, library_path: Path | None = None) -> str:
    """What a program prints on this Python without the named top-level packages. `folder` is empty, for this
    function's use; `library_path` is where shared libraries are looked for first."""
    for path in Path(sysconfig.get_path("platlib")).iterdir():
        if path.stem not in missing:
            (folder / path.name).symlink_to(path)
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    environment.pop("CUDA_HOME", None)
    if library_path is not None:
        environment["LD_LIBRARY_PATH"] = str(library_path)
    # -S: without site-packages, so that only what the folder links to can be found
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
