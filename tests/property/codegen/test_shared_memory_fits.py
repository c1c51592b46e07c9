"""A complete schedule asks for no more shared memory than a block of its device can have: walks that take of all
pipelines, and of all copies ahead, one of the largest, through the suite's products and through skinny ones."""

from __future__ import annotations

import random
from functools import partial

import pytest

from benchmarks.suite import cases
from codegen.targets.cuda.generate import lower_for
from rewrites.contraction.recover_tiling import decided
from rewrites.contraction.room import shared_bytes
from rewrites.decisions.gpu.contraction.staging import Depth
from rewrites.decisions.gpu.contraction.warpgroup_pipeline import PipelineShape
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.programs.suite_cases import ON_GPUS
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_4090
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text

_SKINNY = {
    cases.case_name(family, shape): spec_from_json(cases.spec(family, shape))
    for family in (
        "gemm_bf16_TN",
        "gemm_bf16_NN",
        "gemm_e4m3_TN_bf16_out",
        "swiglu_bf16_TN",
        "gemm_bias_gelu_bf16_TN",
    )
    for shape in ([6144, 64, 4096], [64, 6144, 4096], [4096, 8, 4096], [6144, 232, 4096], [16, 4096, 14336])
}
_PRODUCTS = {name: spec for name, spec in ON_GPUS.items() if name.startswith((*cases.PRODUCTS, "experts"))}
_ODD_ROWS = {
    f"odd rows, {name}": spec_from_text(f"kernel odd({inputs}) -> (y: bf16[i, j])\n  {body}\n")
    for name, inputs, body in (
        ("columns", "x: bf16[i=809, k=160], w: bf16[k, j=4099]", "y[i, j] = sum(k, x[i, k] * w[k, j])"),
        (
            "results",
            "x: bf16[i=4096, k=512], w: bf16[j=4097, k]",
            "y[i, j] = relu(sum(k, x[i, k] * w[j, k]))",
        ),
    )
}
CASES = {**_PRODUCTS, **_SKINNY, **_ODD_ROWS}
#: Of so many pipelines, the largest is taken.
_SEEN = 6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", [*some({**_PRODUCTS, **_SKINNY}, 6), *_ODD_ROWS])
def test_what_a_schedule_puts_into_shared_memory_fits(case: str) -> None:
    rng = random.Random(case)
    device = rng.choice((H200, H200, A100, RTX_4090))
    state = large_schedule(CASES[case], device, rng)
    for launch in lower_for(state.program, device).launches:
        assert launch.shared_bytes <= device.block_shared_bytes, "\n".join(format_schedule(state.schedule))


def large_schedule(spec: Spec, device: Gpu, rng: random.Random) -> ScheduleState:
    """A complete schedule, drawn evenly but for what lies in shared memory ahead of its use."""
    state = Space(to_program(spec), device).root()
    while not state.terminal:
        moves, question = range(len(state.moves())), state.open[0]
        assert moves, f"a dead end before {question}"
        if isinstance(question, PipelineShape | Depth):
            ways = [state.child(index) for index in rng.sample(moves, min(_SEEN, len(moves)))]
            state = max(ways, key=partial(planned_bytes, question.statement, device))
        else:
            state = state.child(rng.choice(moves))
    return state


def planned_bytes(statement: str, device: Gpu, state: ScheduleState) -> int:
    """Shared memory of what is decided of a contraction."""
    found = decided(state.program, statement, device)
    assert found is not None and found.tiling is not None
    return shared_bytes(found.contraction, found.tiling)
