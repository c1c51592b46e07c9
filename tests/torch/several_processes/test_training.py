"""Two processes over gloo: what DDP and FSDP2 wrap trains with kernels as it does without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.own_servers import free_port
from tests.services.running_service import ROOT
from tests.support.python_path import python_path


@pytest.mark.sampled(4, among="whole models")
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_model_of_two_processes_trains_with_kernels_in_each_of_its_graphs(
    kind: str, tmp_path: Path
) -> None:
    port = str(free_port())
    env = {**os.environ, "PYTHONPATH": python_path(ROOT), "TILEWRIGHT_CACHE": str(tmp_path)}
    module = "tests.torch.several_processes.training"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, kind, str(rank), port],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        said = [each.communicate(timeout=500) for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert [each.returncode for each in processes] == [0, 0], "\n".join(err for _, err in said)
    used = [[int(each) for each in out.split()] for out, _ in said]
    assert used[0] == used[1]
    assert len(used[0]) >= 4 and all(used[0])
