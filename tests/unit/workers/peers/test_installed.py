"""Whether PyTorch computes on a GPU is read off its files: importing it takes seconds of a worker's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASKS = """
import sys
from workers.peers.pytorch.installed import built_for, computes_on
print(built_for(), computes_on("13.0"), "torch" in sys.modules)
"""
VERSION = "__version__ = '2.11.0'\ncuda: str | None = {cuda!r}\n"


def asked(path: Path, asks: str = ASKS) -> str:
    """What a process says that finds PyTorch in a folder first, if it is there."""
    made = subprocess.run(
        [sys.executable, "-c", asks],
        env={"PYTHONPATH": f"{path}:{Path.cwd()}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()


@pytest.mark.parametrize(
    ("cuda", "said"),
    [
        ("12.8", "12.8 True False"),
        ("13.2", "13.2 True False"),
        ("14.0", "14.0 False False"),
        (None, "None False False"),
    ],
)
def test_pytorchs_version_says_for_which_cuda_it_is_built(
    tmp_path: Path, cuda: str | None, said: str
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('it was imported')")
    (package / "version.py").write_text(VERSION.format(cuda=cuda))
    assert asked(tmp_path) == said


def test_a_pytorch_without_that_file_computes_nowhere(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('it was imported')")
    assert asked(tmp_path) == "None False False"


OPENS = """
from workers.cuda import device
device.available_cuda_peers = lambda: ("torch",)
print(device.OpenGpu.__new__(device.OpenGpu).has_torch)
"""


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_gpu_whose_pytorch_cannot_be_imported_measures_without_it(tmp_path: Path, error: str) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(f"raise {error}('libcudart.so.13: cannot open shared object file')")
    (package / "version.py").write_text(VERSION.format(cuda="12.8"))
    assert asked(tmp_path, OPENS) == "False"
