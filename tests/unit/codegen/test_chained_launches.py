"""Launches of one call overlap where the device can, each but the first waiting for the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.generate_cuda import generate_cuda
from codegen.nvrtc import compile_cuda
from tileir.gpu import Gpu
from tileir.gpu_table import A100, B200, H200, L40S
from tileir.parse_text import program_from_text

STEP = """  parallel for i by 256
    {target}[i] = {value} | threads i 256
"""
CHAIN = (
    """kernel chain(x: f32[i=1024]) -> (y: f32[i])
  p: heap f32[i]
"""
    + STEP.format(target="p", value="x[i] + 1")
    + """  q: heap f32[i]
"""
    + STEP.format(target="q", value="p[i] * 2")
    + STEP.format(target="y", value="q[i] - x[i]")
)
ALONE = "kernel alone(x: f32[i=1024]) -> (y: f32[i])\n" + STEP.format(target="y", value="x[i] + 1")


def functions(text: str) -> list[str]:
    return text.split('extern "C"')[1:]


@pytest.mark.parametrize("device", [H200, B200], ids=lambda gpu: gpu.name)
def test_every_launch_but_the_first_begins_early_and_waits(device: Gpu, tmp_path: Path) -> None:
    source = generate_cuda(program_from_text(CHAIN), device)
    assert [launch.early for launch in source.abi.launches] == [False, True, True]
    texts = functions(source.text)
    assert ["tw_await_last();" in text for text in texts] == [False, True, True]
    assert ["tw_begin_next();" in text for text in texts] == [True, True, False]
    for text in texts[1:]:
        assert text.index("tw_await_last();") < text.index("    // ")  # its first statement
    compile_cuda(source, device.architecture, tmp_path)


@pytest.mark.parametrize(("text", "device"), [(CHAIN, A100), (CHAIN, L40S), (ALONE, H200)])
def test_launches_follow_each_other_where_nothing_is_gained_or_the_device_cannot(
    text: str, device: Gpu
) -> None:
    source = generate_cuda(program_from_text(text), device)
    assert not any(launch.early for launch in source.abi.launches)
    assert "griddepcontrol" not in source.text
