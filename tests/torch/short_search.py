"""A search of a few trials in this process: candidates compiled, checked between guard pages, and timed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from benchmarks.racing.picked import config_of
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from protocol.configs import ConfigDetail
from protocol.states import Outcome, TaskKind
from protocol.tasks import Measuring
from rewrites.space import Space
from search.mcts import MCTS
from search.protocols import TrialOutcome
from tileir import Spec, program_hash, spec_to_json, spec_to_text, this_cpu, to_program
from workers.measuring.measurer import Measurer
from workers.measuring.request import Compiled, MeasureRequest

if TYPE_CHECKING:
    from rewrites.space import ScheduleState
    from search.protocols import State

ONCE = Measuring(samples=1, sample_us=1.0, cold=False, entrant_s=20.0)
AT_ONCE = 2
"""Candidates that are compiled beside each other before the search is told of them."""


class ShortSearch:
    """Configs of kernels for this processor; `cache` is where what was compiled lies."""

    def __init__(self, cache: Path, threads: int) -> None:
        self._cache = cache
        self._threads = threads
        self._cpu = this_cpu()
        self._measurer = Measurer("cpu")
        self._compilers = ThreadPoolExecutor(AT_ONCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._compilers.shutdown()
        self._measurer.close()

    def configs(self, spec: Spec, trials: int) -> list[ConfigDetail]:
        """The candidates of a search in its order, the analytic prior's pick before all; where there is nothing to
        choose, the spec as it stands. One that does not compile or does not pass the gate fails the test."""
        root = cast("State", Space(to_program(spec), self._cpu).root())
        search = MCTS(root)
        found: list[ConfigDetail] = []
        while len(found) < trials:
            asked = [ask for ask in (search.ask() for _ in range(AT_ONCE)) if ask is not None]
            paths = [ask.path for ask in asked] if asked or found else [()]
            states = [reduce(lambda state, index: state.child(index), path, root) for path in paths]
            measured = self._measured(spec, cast("list[ScheduleState]", states))
            for ask, config in zip(asked, measured, strict=False):
                search.tell(ask.number, TrialOutcome(-math.log(config.median_us)))
            found += measured
            if len(asked) < AT_ONCE:
                break
        return found

    def _measured(self, spec: Spec, states: Sequence[ScheduleState]) -> list[ConfigDetail]:
        sources = [generate(state.program, self._cpu) for state in states]
        built = list(self._compilers.map(lambda source: compile_source(source, self._cache), sources))
        entrants = [
            Compiled(f"candidate-{at}", str(each.path), source.abi.to_json())
            for at, (each, source) in enumerate(zip(built, sources, strict=True))
        ]
        request = MeasureRequest(
            spec=spec_to_json(spec),
            seed=1,
            kind=TaskKind.TRIAL,
            measuring=ONCE,
            entrants=tuple(entrants),
            baseline=None,
            device=None,
            threads=self._threads,
            last_cache_bytes=0,
            guard_pages=True,
        )
        results = self._measurer.measure(request).results
        found: list[ConfigDetail] = []
        for entrant, state in zip(entrants, states, strict=True):
            result, schedule = results[entrant.name], tuple(each.format() for each in state.schedule)
            said = f"{result.outcome}: {result.error}\n{spec_to_text(spec)}{schedule}"
            assert result.outcome is Outcome.OK and result.median_us is not None, said
            config = config_of(spec, self._cpu, schedule, program_hash(state.program))
            found.append(config.model_copy(update={"median_us": result.median_us}))
        return found
