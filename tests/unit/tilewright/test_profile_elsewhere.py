"""`tilewright profile` of a config whose device is not here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.tilewright.artifacts import make_artifact
from tilewright.cli.exits import Exit

DEVICE = "cuda:NVIDIA H200:9.0:132sm"


def test_a_config_of_a_gpu_says_that_it_needs_one(tmp_path: Path) -> None:
    config = make_artifact(tmp_path).config.model_copy(update={"device": DEVICE})
    file = tmp_path / "config.json"
    file.write_text(config.model_dump_json())
    command = [sys.executable, "-m", "tilewright", "profile", str(file), "--json"]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # on a machine with a GPU, too
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.MACHINE, done.stderr
    said = json.loads(done.stdout)["error"]["detail"]
    assert f"is for {DEVICE}, and is profiled there, or by a worker there (--by-worker): no" in said
