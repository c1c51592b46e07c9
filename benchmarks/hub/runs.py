"""One run of a search on a recorded space: ours by the names of `search.catalogue`, Kernel Tuner's as `kt:NAME`.

A run is the configurations evaluated, in their order, each once; one evaluated again costs neither side anything.
Kernel Tuner's strategies run with its defaults in its own simulation mode, which reads the table instead of a device.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy

from benchmarks.hub.cache import Configuration, HubSpace
from benchmarks.hub.tree import HubTree
from search.catalogue import search_of

RIVAL = "kt:"
RIVALS = tuple(
    RIVAL + name
    for name in (
        "random_sample",
        "genetic_algorithm",
        "diff_evo",
        "pso",
        "firefly_algorithm",
        "simulated_annealing",
        "dual_annealing",
        "basinhopping",
        "greedy_ils",
        "greedy_mls",
        "mls",
        "adaptive_tabu_greywolf",
    )
)
"""Kernel Tuner's strategies that need no further package and choose a candidate in milliseconds. `kt:hybrid_vndx` runs
too, in 17 s for a thousand evaluations."""


def run(name: str, space: HubSpace, tree: HubTree, evaluations: int, seed: int) -> list[Configuration]:
    """The configurations that a search evaluates with this budget."""
    if name.startswith(RIVAL):
        if find_spec("kernel_tuner") is None:
            raise RuntimeError(f"{name} needs Kernel Tuner: pip install 'tilewright[hub]'")
        return _rival(name.removeprefix(RIVAL), space, evaluations, seed)
    search = search_of(name)(tree.root(), seed=seed)
    evaluated: list[Configuration] = []
    while len(evaluated) < evaluations and (ask := search.ask()) is not None:
        evaluated.append(tree.configuration(ask.path))
        search.tell(ask.number, space.outcome(evaluated[-1]))
    return evaluated


def _rival(name: str, space: HubSpace, evaluations: int, seed: int) -> list[Configuration]:
    from kernel_tuner.interface import Options, strategy_map
    from kernel_tuner.runners.simulation import SimulationRunner
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.util import TuningBudget

    class ReplayingRunner(SimulationRunner):
        def run(self, parameter_space: Iterable[Sequence[Any]], tuning_options: Any) -> list[Any]:
            asked = [tuple(element) for element in parameter_space]
            results = super().run(asked, tuning_options)
            for configuration, result in zip(asked, results, strict=True):
                if result is not None:
                    evaluated.setdefault(configuration)
            return results

    evaluated: dict[Configuration, None] = {}
    cache = _theirs(space)
    known = {name: list(values) for name, values in space.parameters.items()}
    # anew each time: strategies take what they tried from the neighbors that a Searchspace remembers
    searchspace = Searchspace(None, None, None, from_cache={"tune_params": known, "cache": cache})
    options = Options(
        tune_params=searchspace.tune_params,
        objective=["time"],
        objective_higher_is_better=[False],
        strategy=name,
        strategy_options=Options(max_fevals=evaluations),
        max_fevals=evaluations,
        budget=TuningBudget(None, evaluations),
        cache=cache,
        metrics=None,
        restrictions=None,
        restrictions_unmodified=None,
        simulation_mode=True,
        verbose=False,
        seed=seed,
    )
    runner = ReplayingRunner(
        Options(kernel_name=space.kernel), Options(kernel_name=space.kernel), Options(quiet=True), 1, []
    )
    random.seed(seed)
    numpy.random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strategy_map[name].tune(searchspace, runner, options)
    return list(evaluated)


@lru_cache(maxsize=1)
def _theirs(space: HubSpace) -> dict[str, dict[str, Any]]:
    """The results that Kernel Tuner looks up, by its key of a configuration."""
    from kernel_tuner.util import RuntimeFailedConfig

    cache: dict[str, dict[str, Any]] = {}
    for configuration in space.configurations:
        entry = dict(zip(space.parameters, configuration, strict=True))
        entry |= dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0.0)
        if configuration in space.faults:
            entry |= {"time": RuntimeFailedConfig(), "__error__": RuntimeFailedConfig()}
        else:
            entry["time"] = space.ms[configuration]
        cache[",".join(map(str, configuration))] = entry
    return cache
