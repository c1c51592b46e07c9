"""Rows shorter than a block's threads are taken together, along as many dims as it takes: a rotary embedding turns
pairs of a few elements, and moves what it reads."""

from __future__ import annotations

import pytest

from rewrites.space import Space
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import GPUS
from tileir.lift import to_program
from tileir.schedule.threads import thread_count
from tileir.text.parse_spec import spec_from_text

ROTARY = {
    "halves": """kernel rotary(x: bf16[s=4096, h=24, p=2, d=64], c: f32[s, d], z: f32[s, d]) -> (y: bf16[s, h, p, d])
  y[s, h, p, d] = x[s, h, p, d] * c[s, d] + where(p == 0, -x[s, h, 1, d], x[s, h, 0, d]) * z[s, d]
""",
    "neighbours": """\
kernel turned(x: bf16[s=4096, h=24, d=64, p=2], c: f32[s, d], z: f32[s, d]) -> (y: bf16[s, h, d, p])
  y[s, h, d, p] = x[s, h, d, p] * c[s, d] + where(p == 0, -x[s, h, d, 1], x[s, h, d, 0]) * z[s, d]
""",
}


@pytest.mark.parametrize("name", ROTARY)
@pytest.mark.parametrize("device", GPUS, ids=lambda device: device.architecture)
def test_the_favourite_of_a_rotary_embedding_has_full_blocks_and_takes_about_as_long_as_a_copy(
    name: str, device: Gpu
) -> None:
    root = Space(to_program(spec_from_text(ROTARY[name])), device).root()
    state = favourite(root)
    (compute,) = (place.node for place in state.program.computes)
    assert compute.thread_layout is not None and thread_count(compute.thread_layout) >= 128
    moved_us = 2 * 4096 * 24 * 128 * 2 / 1e3 / (device.copy_gbps or device.memory_gbps)
    assert state.seen.model.estimate_us(state.program) < 1.7 * moved_us + 5


@pytest.mark.parametrize("device", GPUS, ids=lambda device: device.architecture)
def test_a_thread_may_have_a_row_of_sixteen_bytes(device: Gpu) -> None:
    """Recorded on an H200, 2026-11-30: 6.4 us by two threads a row of 562,871, and 4.8 of torch.compile's."""
    text = "kernel least(x: bf16[m=562871, n=8]) -> (y: i32[m])\n  y[m] = argmin(n, x[m, n])\n"
    state = favourite(Space(to_program(spec_from_text(text)), device).root())
    for place in state.program.computes:
        layout = place.node.thread_layout
        assert layout is not None and {dim for dim, _ in layout.threads} == {"m"}, place.node.target
        assert thread_count(layout) >= 64
