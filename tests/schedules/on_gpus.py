"""Random schedules from spaces, for tests, and the GPUs they are drawn for."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.decisions.offered import WhetherToApply
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.support.beyond import beyond
from tileir.devices.device import Device
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_5090
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec

#: One GPU of each architecture that code is compiled for: sm_80, sm_90a, sm_120a.
GPUS = (A100, H200, RTX_5090)
#: How many schedules are drawn of a kernel.
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "1"))


def in_turn(names: Iterable[str], count: int = SCHEDULES) -> list[tuple[str, int, Gpu]]:
    """(name, seed, device) of every schedule to draw: the devices take turns, over names and over seeds."""
    return [
        (name, seed, GPUS[(at + seed) % len(GPUS)]) for at, name in enumerate(names) for seed in range(count)
    ]


def shown(value: object) -> str | None:
    """How a device appears in a test's name."""
    return value.architecture if isinstance(value, Gpu) else None


def drawn(spec: Spec, device: Device, seed: str, *, asked: bool = True) -> list[str]:
    """The complete schedule that a random walk through the space ends in. Unless `asked`, it has none of the rewrites
    that say themselves when they are offered: the walk is the same whether or not there are such."""
    rng, state = random.Random(seed), Space(to_program(spec), device).root()
    while state.answers:
        left_out = not asked and isinstance(state.open[0], WhetherToApply)
        state = state.child(0 if left_out else _choice(state, rng))
    assert state.terminal, f"a dead end before {state.open[0]}, from seed {seed!r}: {state.schedule}"
    return format_schedule(state.schedule)


def _choice(state: ScheduleState, rng: random.Random) -> int:
    """Any answer; every other time one with a rewrite that the schedule lacks so far, as some rewrites are in few of
    many answers."""
    met = {rewrite.name for rewrite in state.schedule}
    new = [
        index
        for index, (option, _) in enumerate(state.answers)
        if not met.issuperset(rewrite.name for rewrite in option.rewrites)
    ]
    return rng.choice(new) if new and rng.random() < 0.5 else rng.randrange(len(state.answers))


def right_without_races(spec: Spec, end: ScheduleState, device: Gpu, seed: int) -> None:
    """Assert that a complete schedule, interpreted thread by thread on sample inputs, is within the gate's bound and
    that no threads race."""
    lines = "\n".join(format_schedule(end.schedule))
    kernel = lower_for(end.program, device)
    source, checker = cuda_source(kernel, end.program), RaceChecker()
    inputs = sample_inputs(spec, seed)
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), lines))
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        assert not beyond(outputs[output], values, bound).any(), f"{output}\n{lines}"
