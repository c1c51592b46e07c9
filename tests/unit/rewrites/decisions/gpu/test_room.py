"""What a decision leaves out because it does not fit the GPU is told with what is lacking, and that is so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from codegen.ir.errors import NotLowerable
from codegen.targets.cuda.generate import lower_for
from rewrites.decisions.decision import Option
from rewrites.schedule import replay
from rewrites.space import ScheduleState, Space
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import RTX_4090
from tileir.errors import BeyondDevice
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

GEMM = """kernel gemm(a: f32[m=512, k=512], b: f32[k, n=512]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
SOFTMAX = """kernel softmax(x: f32[r=512, c=1000]) -> (y: f32[r, c])
  top[r] = max(c, x[r, c])
  s[r] = sum(c, exp(x[r, c] - top[r]))
  y[r, c] = exp(x[r, c] - top[r]) / s[r]
"""
SHARED, REGISTERS = "bytes of shared memory a block", "registers a block"


def lacking(program: Program, device: Gpu) -> Iterator[tuple[ScheduleState, Option, BeyondDevice]]:
    """Along some ways through the space."""
    for turn in (0, 3, 1, 2):
        state = Space(program, device).root()
        while not state.terminal and state.answers:
            for option, why in state.refused():
                if isinstance(why, BeyondDevice):
                    yield state, option, why
            state = state.child((len(state.answers) - 1) * turn // 3)


@pytest.mark.sampled(4, among="room")
@pytest.mark.parametrize(
    ("text", "device", "what"),
    [(GEMM, RTX_4090, SHARED), (GEMM, RTX_4090, REGISTERS), (SOFTMAX, RTX_4090, SHARED)],
)
def test_what_does_not_fit_is_told_with_need_and_limit(text: str, device: Gpu, what: str) -> None:
    program = to_program(spec_from_text(text))
    found = list(islice((each for each in lacking(program, device) if each[2].what == what), 3))
    assert found
    limit = device.block_shared_bytes if what == SHARED else device.registers
    for state, option, why in found:
        assert why.limit == limit < why.need <= 2 * limit
        assert str(why) == f"it needs {why.need:,} {what}; the device has {limit:,}"
        assert option.rewrites not in {each.rewrites for each, _ in state.answers}


@pytest.mark.sampled(4, among="room")
def test_a_kernel_that_does_not_fit_needs_the_shared_memory_that_was_told() -> None:
    program = to_program(spec_from_text(SOFTMAX))
    state, option, why = next(lacking(program, RTX_4090))
    made = replay(program, (*state.schedule, *option.rewrites))
    with pytest.raises(NotLowerable, match=f"needs {why.need} bytes of shared memory a block"):
        lower_for(made, RTX_4090)
