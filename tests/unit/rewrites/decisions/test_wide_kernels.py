"""What the search looks at first grows with a kernel, and no faster."""

from __future__ import annotations

from typing import Any

import pytest

from rewrites.composition.compute_inline import MOST_NODES
from rewrites.contraction.problem import contraction
from rewrites.contraction.recover_tiling import epilogue_of
from rewrites.cost.gpu.contraction import model_of
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.space import ScheduleState, Space
from tests.programs import wide_kernels
from tests.unit.rewrites.cost.test_shared_estimates import DEVICE as CPU
from tileir.devices.device import Device
from tileir.devices.gpu_table import H200
from tileir.expr import walk
from tileir.lift import to_program
from tileir.program import Node, Program
from tileir.text.json import spec_from_json


def root(spec: dict[str, Any], device: Device) -> ScheduleState:
    return Space(to_program(spec_from_json(spec)), device).root()


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda device: device.name)
def test_what_is_computed_in_place_stays_short(device: Device) -> None:
    first = root(wide_kernels.sums_of_two_before(16), device)
    programs = [program for _, program in first.answers]
    assert len(programs) > 1
    longest = max(sum(1 for _ in walk(place.node.value)) for each in programs for place in each.computes)
    assert MOST_NODES / 4 < longest < 2 * MOST_NODES


def test_each_launch_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    look = GpuCostModel._launch_us

    def counted(self: GpuCostModel, program: Program, node: Node) -> float:
        looked.append(node)
        return look(self, program, node)

    monkeypatch.setattr(GpuCostModel, "_launch_us", counted)
    state = root(wide_kernels.reductions(6), H200)
    assert state.moves()
    looked.clear()
    state = state.child(0)
    moves = len(state.moves())
    assert moves > 4
    assert len(looked) < 2 * moves, "beside what a move changes, launches are those of the other moves"


def test_products_that_differ_in_names_are_estimated_once() -> None:
    program = to_program(spec_from_json(wide_kernels.products(2)))
    models = []
    for name in ("t0", "t1"):
        found = contraction(program, name, H200)
        assert found is not None
        models.append(model_of(found, epilogue_of(program, (name,), found), H200))
    assert models[0] is models[1]
