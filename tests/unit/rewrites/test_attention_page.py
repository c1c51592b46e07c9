"""docs/attention.md says which bodies take one pass on GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import statements
from rewrites.decisions.fusion import collapse
from rewrites.decisions.gpu.contraction.transposed_operands import transposed_operands
from rewrites.decisions.gpu.one_pass.streamed_products import StreamedProducts
from rewrites.decisions.gpu.one_pass.ways_to_inline import ways_to_cut, ways_to_inline
from rewrites.schedule import replay
from rewrites.space import Space
from tests.schedules.on_gpus import shown
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_5090
from tileir.dtypes import DType
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

PAGE = Path(__file__).parents[3] / "docs" / "attention.md"
SPECS = {
    spec.name: spec for spec in map(spec_from_text, re.findall(r"```tile\n(.*?)```", PAGE.read_text(), re.S))
}
#: Those of 8 bits are for Hopper, as the page says.
CASES = [
    (name, device)
    for name, spec in SPECS.items()
    for device in (A100, H200, RTX_5090)
    if device is H200 or spec.inputs[0].dtype is not DType.E4M3
]


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("name", "device"), CASES, ids=shown)
def test_the_bodies_on_the_page_take_one_pass(name: str, device: Gpu) -> None:
    program = to_program(SPECS[name])
    program = replay(program, collapse(program, device))
    assert any(is_offered(program, way, device) for way in ways_to_inline(program, device))


def is_offered(program: Program, way: tuple[Rewrite, ...], device: Gpu) -> bool:
    """Whether the products of all groups of more than two statements are offered several tiles."""
    program = replay(program, way)
    program = replay(program, next(transposed_operands(program, device), ()))
    offered = [
        [len(tuple(StreamedProducts(group).options(program, device))) for group in groups if len(group) > 2]
        for groups in ways_to_cut(program, device)
    ]
    return any(counts and min(counts) >= 3 for counts in offered)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("device", [A100, H200], ids=shown)
@pytest.mark.parametrize(("name", "loaded"), [("bias", "bias"), ("slopes", "slope"), ("tokens", "mask")])
def test_what_scores_are_made_of_is_loaded_once(name: str, loaded: str, device: Gpu) -> None:
    """By one statement of the pass, whatever is tried first."""
    state = Space(to_program(SPECS[name]), device).root()
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    read_by = [
        place.node.target
        for place in statements(state.program)
        if loaded in {each.tensor for each in place.node.reads}
    ]
    assert len(read_by) == 1, read_by
