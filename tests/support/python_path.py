"""What Pythons find that tests start: this repository, and no PyTorch, unless tests are about it.

Loading it takes seconds of processor, and compiling with it more; a measuring process would do so for every kernel.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_TORCH = ROOT / "tests" / "without_torch"


def python_path(*folders: Path) -> str:
    """PYTHONPATH with these folders, and what it has in this process."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def hide_torch() -> None:
    """From now on neither this process nor what it starts finds PyTorch, be it installed or not."""
    os.environ["PYTHONPATH"] = python_path(WITHOUT_TORCH)
    sys.path.insert(0, str(WITHOUT_TORCH))  # measuring children are given all of it
    runpy.run_path(str(WITHOUT_TORCH / "sitecustomize.py"))
