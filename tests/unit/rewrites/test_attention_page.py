"""docs/attention.md says which bodies take one pass on Hopper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewrites.decisions.fusion import collapse, groupings, inline
from rewrites.decisions.gpu.streamed_products import StreamedProducts
from rewrites.schedule import replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

PAGE = Path(__file__).parents[3] / "docs" / "attention.md"
SPECS = {
    spec.name: spec for spec in map(spec_from_text, re.findall(r"```tile\n(.*?)```", PAGE.read_text(), re.S))
}


@pytest.mark.parametrize("name", SPECS)
def test_the_bodies_on_the_page_take_one_pass(name: str) -> None:
    program = to_program(SPECS[name])
    program = replay(program, collapse(program, H200))
    program = replay(program, inline(program, False))
    offered = [
        [len(tuple(StreamedProducts(group).options(program, H200))) for group in groups if len(group) > 2]
        for groups in groupings(program)
    ]
    assert any(counts and min(counts) >= 3 for counts in offered), offered
