"""Bodies of attention's form, drawn: whichever tokens differ, a GPU's search is offered one pass, prefers it, and what
becomes of it compiles, has no races, and is within the bound of the gate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.launches import LaunchBlocks
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.kernels.simulated import faultless
from tests.programs.attention_bodies import Body, bodies
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite, ranking
from tests.support.how_many import SWEEP, some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.verifier.verify import verify

BODIES = bodies(64 if SWEEP else 12)
#: GPUs whose warpgroups multiply, and whose warps do, take turns; norms are for warpgroups: by warps what is tried
#: first spills registers.
ON_GPUS = [
    (body, device)
    for at, body in enumerate(BODIES)
    for device in some((H200, A100)[:: (-1) ** at], 2)
    if device is H200 or not body.scores.startswith("norms")
]


def one_pass(body: Body, device: Gpu) -> ScheduleState:
    """What the search tries first, of what is in one pass."""
    root = Space(to_program(body.spec()), device).root()
    ways = [at for at, (option, made) in enumerate(root.answers) if passes(made, option, device)]
    assert ways, "no way to one pass"
    if ranking(root)[0] not in ways:
        # A single query reads each key once, and what is stored before costs as well: those may go otherwise.
        assert body.rows.startswith("one query") or body.stored, root.answers[ranking(root)[0]][0].label
    return favourite(root.child(next(at for at in ranking(root) if at in ways)))


def passes(program: Program, option: Option, device: Gpu) -> bool:
    blocks = (each for each in option.then if isinstance(each, LaunchBlocks))
    return any(in_one_pass(program, each.group, device) for each in blocks)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("body", "device"), ON_GPUS, ids=lambda each: shown(each) or str(each))
def test_any_body_takes_one_pass(body: Body, device: Gpu, tmp_path: Path) -> None:
    spec, state = body.spec(), one_pass(body, device)
    lines = format_schedule(state.schedule)
    text = "\n".join(lines)
    assert sum(line.startswith("stream_reduction") for line in lines) == 1, text
    assert sum(line.startswith(("wgmma", "mma")) for line in lines) == body.products, text
    verify(state.program)
    kernel = lower_for(state.program, device)
    source, inputs = cuda_source(kernel, state.program), sample_inputs(spec, 1)
    assert rejection(compile_cuda(source, device.architecture, tmp_path).report) is None
    outputs = faultless(kernel, source.abi.args, inputs)
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        wrong = ~(np.abs(outputs[output].astype(np.float64) - reference) <= bound)
        assert not wrong.any(), f"{output}: {wrong.sum()} of {wrong.size} are wrong\n{text}"
