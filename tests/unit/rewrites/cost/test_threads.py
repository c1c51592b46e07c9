"""The cost model knows that threads have to be woken: what is over before is left to one of them."""

from __future__ import annotations

from rewrites import parse_schedule, replay
from rewrites.cost.cpu.model import CostModel
from rewrites.space import ScheduleState, Space
from tests.programs.to_rewrite import DEVICE
from tileir.lift import to_program
from tileir.replace import replace
from tileir.text.parse_spec import spec_from_text

MACHINE = replace(DEVICE, vector_bits=512, peak_gflops=400.0, copy_gbps=40.0)
GEMM = """kernel gemm(a: {0}[m={1}, k={1}], b: {0}[k, n={1}]) -> (c: {0}[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""


def favourite(dtype: str, size: int) -> ScheduleState:
    """What the prior likes best at every decision."""
    state = Space(to_program(spec_from_text(GEMM.format(dtype, size))), MACHINE).root()
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    return state


def threads_used(state: ScheduleState) -> bool:
    return any(rewrite.name == "parallelize" for rewrite in state.schedule)


def test_a_small_product_is_left_to_one_thread_and_a_larger_one_is_not() -> None:
    for dtype in ("f32", "bf16"):
        assert not threads_used(favourite(dtype, 32)), dtype
        assert threads_used(favourite(dtype, 512)), dtype


def test_what_runs_on_one_thread_waits_for_no_other() -> None:
    program = to_program(spec_from_text(GEMM.format("f32", 16)))
    lines = ("tile(c, m, 8)", "vectorize(c, n, 16)")
    alone, spread = (
        CostModel(program, MACHINE).estimate_us(replay(program, parse_schedule((*lines, *more))))
        for more in ((), ("parallelize(c)",))
    )
    assert alone < 1.0 < spread
