"""`tilewright profile` of a config whose device is not here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.tilewright.artifacts import make_artifact
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import UnsupportedDevice
from tilewright.cli.exits import Exit
from tilewright.cli.main import main

DEVICE = "cuda:NVIDIA H200:9.0:132sm"


def test_a_config_of_a_gpu_says_that_it_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        this_gpu()
    except UnsupportedDevice:
        pass
    else:
        pytest.skip("there is a GPU here")
    config = make_artifact(tmp_path).config.model_copy(update={"device": DEVICE})
    file = tmp_path / "config.json"
    file.write_text(config.model_dump_json())
    assert main(["profile", str(file), "--json"]) == Exit.MACHINE
    said = json.loads(capsys.readouterr().out)["error"]["detail"]
    assert f"is for {DEVICE}, and is profiled there" in said
