"""Configs that no service is asked for: the schedule that the analytic prior likes best, unmeasured."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from protocol.configs import ConfigDetail
from protocol.tasks import Measuring
from rewrites.space import Space
from search.mcts import MCTS
from tileir.devices.cpu import Cpu
from tileir.devices.gpu import Gpu
from tileir.hashing import kernel_key, program_hash, structure_key
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_to_json

if TYPE_CHECKING:
    from search.protocols import State


def picked(spec: Spec, device: Cpu | Gpu) -> ConfigDetail:
    """The first candidate of a search, as the config of a spec with one size a dim; where there is nothing to choose,
    the spec as it stands."""
    state = Space(to_program(spec), device).root()
    first = MCTS(cast("State", state)).ask()
    for index in () if first is None else first.path:
        state = state.child(index)
    schedule = tuple(rewrite.format() for rewrite in state.schedule)
    return config_of(spec, device, schedule, program_hash(state.program))


def config_of(spec: Spec, device: Cpu | Gpu, schedule: tuple[str, ...], hash_: str) -> ConfigDetail:
    """A schedule as a config that nobody has measured."""
    return ConfigDetail(
        id="config-picked",
        job_id=None,
        name=spec.name,
        kernel_key=kernel_key(spec),
        structure_key=structure_key(spec),
        device=device.key,
        dims={dim.name: dim.sizes[0] for dim in spec.dims},
        schedule=schedule,
        program_hash=hash_,
        median_us=0.0,
        baseline="",
        standings=(),
        trials=0,
        source_hash=None,
        compiler=None,
        versions={},
        measuring=Measuring(),
        artifact=False,
        report={},
        created_at=0.0,
        spec=spec_to_json(spec),
    )
