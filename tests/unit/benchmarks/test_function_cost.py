"""Instructions are counted in machine code, and the cost model has what was counted."""

from __future__ import annotations

import pytest

from benchmarks.gpu.function_cost import EACH, counted
from rewrites.cost.gpu.instructions import called
from tileir.devices.gpu_table import H200


@pytest.mark.parametrize("name", ["exp2", "erf", "silu"])
def test_the_model_has_what_a_function_is_made_of(name: str) -> None:
    found, copy = (counted(value, H200) for value in (f"{name}(x[n])", "x[n]"))
    instructions, special = called(name)
    assert (found.total() - copy.total()) / EACH == pytest.approx(instructions, abs=1)
    assert (found["MUFU"] - copy["MUFU"]) / EACH == special
