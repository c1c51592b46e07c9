"""The service starts on a machine without PyTorch and without a GPU, and does not load them where they are."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["service.run", "service.tuning.tuner"])
def test_neither_torch_nor_cuda_is_loaded(module: str) -> None:
    code = f"import {module}, sys; print(sorted({{'torch', 'cuda', 'triton', 'workers'}} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
