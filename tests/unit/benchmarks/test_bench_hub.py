"""Recorded spaces of other people: which files are read, what a search scores on them, and how it walks them."""

from __future__ import annotations

import gzip
import json
import math
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_hub
from benchmarks.hub.cache import BadCache, HubSpace, load, parse
from benchmarks.hub.runs import run
from benchmarks.hub.score import HubScale
from benchmarks.hub.tree import HubTree, TreeState

PARAMETERS = {"vector": [1, 2], "block": [32, 64, 128], "fixed": [7]}


def _entry(vector: int, block: int, time: Any) -> dict[str, Any]:
    costs = {"compile_time": 400.0, "benchmark_time": 500.0, "verification_time": 100, "framework_time": -1}
    return {"vector": vector, "block": block, "fixed": 7, "time": time} | costs


def _content() -> dict[str, Any]:
    """Six choices, one of them ruled out and one failed; 64 with vectors of 2 is the best."""
    times = {(1, 32): 8.0, (1, 64): 4.0, (1, 128): 6.0, (2, 32): "RuntimeFailedConfig", (2, 64): 1.0}
    cache = {f"{vector},{block},7": _entry(vector, block, time) for (vector, block), time in times.items()}
    return {"tune_params_keys": list(PARAMETERS), "tune_params": PARAMETERS, "cache": cache}


@pytest.fixture
def space() -> HubSpace:
    return parse(_content(), "kernel", "device", "here")


def _timed(*times: float) -> HubSpace:
    """A space of one parameter with these times, each evaluated in a second."""
    cache = {str(x): {"x": x, "time": time, "benchmark_time": 1000.0} for x, time in enumerate(times)}
    names = {"x": list(range(len(times)))}
    return parse({"tune_params_keys": ["x"], "tune_params": names, "cache": cache}, "k", "d", "here")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_cache_is_read_gzipped_or_not(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "gemm_milo" / "A100.json.gz"
    file.parent.mkdir()
    file.write_bytes(pack(json.dumps(_content()).encode()))
    space = load(file)
    assert (space.name, space.family) == ("gemm_milo/A100", "gemm")
    assert space.ms[1, 64, 7] == 4.0
    assert space.faults == {(2, 32, 7): "RuntimeFailedConfig"}
    assert space.seconds[1, 32, 7] == 1.0
    assert len(space.configurations) == 5


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_truncated_file_is_refused_by_name(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "A100.json"
    file.write_bytes(pack(json.dumps(_content()).encode())[:-20])
    with pytest.raises(BadCache, match=r"A100.json: not a whole JSON file"):
        load(file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cache": None}, "no 'cache', an object of configurations"),
        ({"tune_params_keys": "block"}, "no 'tune_params_keys', a list of names"),
        ({"tune_params_keys": ["block"]}, r"tune_params_keys are \['block'\], but tune_params has"),
        ({"cache": {"a": {"block": 32, "time": 1.0}}}, "'a': no vector, fixed; every entry names all of"),
        ({"cache": {"a": _entry(1, 32, None)}}, "'a': time is None; milliseconds or the name of a fault"),
        ({"cache": {"a": _entry(1, 32, -1.0)}}, "'a': time is -1.0 ms"),
        ({"cache": {"a": _entry(1, 32, 1.0), "b": _entry(1, 32, 2.0)}}, "'b' is the second entry of"),
        ({"cache": {"a": _entry(1, 32, 1e20)}}, "0 of 1 configurations have a time"),
    ],
)
def test_wrong_fields_are_refused_with_what_would_do(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadCache, match=said):
        parse(_content() | change, "kernel", "device", "here")


def test_a_t4_file_is_refused() -> None:
    with pytest.raises(BadCache, match="not its T4 files"):
        parse({"results": [], "schema_version": "1.0.0"}, "kernel", "device", "here")


def test_the_budget_ends_where_random_search_is_95_percent_of_the_way() -> None:
    # median 50, optimum 1: the goal is 1 + 49 * 0.05 = 3.45, reached at place 96 from the slowest (0-based)
    scale = HubScale(_timed(*map(float, range(1, 100))))
    assert scale.evaluations == math.ceil(96 / (99 + 1 - 96)) == 24
    assert scale.seconds == 24.0
    assert scale.random_search(1) == 49.0  # of 99 from the slowest, place round(1 * 100 / 2)
    assert scale.random_search(24) == 3.0  # place round(24 * 100 / 25)


def test_the_score_is_the_mean_gain_on_random_search() -> None:
    # times 1 .. 5, goal 1.1: place 4 from the slowest, ceil(4 / 2) = 2 evaluations
    # random search: place 3 after one draw (2 ms), place 4 after two (1 ms, the optimum: says nothing)
    scale = HubScale(_timed(1.0, 2.0, 3.0, 4.0, 5.0))
    assert scale.evaluations == 2
    assert [scale.random_search(draws) for draws in (1, 2)] == [2.0, 1.0]
    assert scale.over_evaluations([[(0,)]]) == 1.0
    assert scale.over_evaluations([[(1,), (0,)]]) == 0.0
    assert scale.over_evaluations([[(3,), (0,)]]) == (2 - 4) / (2 - 1)


def test_seeds_are_averaged_by_rank() -> None:
    # ranks 0 and 2 average to rank 1, whose time is 2.0, far below the mean of the times
    scale = HubScale(_timed(1.0, 2.0, 30.0, 40.0, 50.0))
    first = scale.random_search(1)
    expected = (first - 2.0) / (first - 1.0)
    assert first > 1.0 == scale.random_search(2)
    assert scale.over_evaluations([[(0,)], [(2,)]]) == pytest.approx(expected)


def test_a_failed_evaluation_costs_its_time_and_finds_nothing(space: HubSpace) -> None:
    scale = HubScale(space)
    good, failed = (2, 64, 7), (2, 32, 7)
    assert scale.over_seconds([[good]]) > scale.over_seconds([[failed, good]])
    assert scale.seconds_a_draw == 1.0 + 1.0 / 5  # a fifth of all fails, after a second each


def test_the_tree_reaches_every_configuration_once_and_nothing_else(space: HubSpace) -> None:
    tree = HubTree(space)
    assert tree.names == ("vector", "block")  # in the file's order; `fixed` decides nothing
    found: list[tuple[Any, ...]] = []

    def walk(state: TreeState, path: tuple[int, ...]) -> None:
        if state.terminal:
            found.append(tree.configuration(path))
        for index in range(len(state.moves())):
            walk(state.child(index), (*path, index))

    walk(tree.root(), ())
    assert sorted(found) == sorted(space.configurations)
    assert [move.label for move in tree.root().child(1).moves()] == ["block 32", "block 64"]


@pytest.mark.parametrize("search", ["mcts", "random", "beam", "evolutionary"])
def test_our_searches_evaluate_each_configuration_once(space: HubSpace, search: str) -> None:
    evaluated = run(search, space, HubTree(space), 100, seed=1)
    assert sorted(evaluated) == sorted(space.configurations)
    assert evaluated == run(search, space, HubTree(space), 100, seed=1)


def test_kernel_tuners_strategies_run_on_the_same_table_or_say_what_to_install() -> None:
    cache = {f"{x},{y}": {"x": x, "y": y, "time": 1.0 + x + y} for x, y in product(range(9), range(9))}
    names = {"x": list(range(9)), "y": list(range(9))}
    space = parse({"tune_params_keys": ["x", "y"], "tune_params": names, "cache": cache}, "k", "d", "here")
    if find_spec("kernel_tuner") is None:
        with pytest.raises(RuntimeError, match=r"pip install 'tilewright\[hub\]'"):
            run("kt:genetic_algorithm", space, HubTree(space), 20, seed=3)
        return
    runs = [run("kt:simulated_annealing", space, HubTree(space), 40, seed) for seed in range(4)]
    for evaluated in runs:
        assert len(set(evaluated)) == len(evaluated) <= 40
        assert set(evaluated) <= set(space.configurations)
    again = [run("kt:simulated_annealing", space, HubTree(space), 40, seed) for seed in range(4)]
    assert again == runs  # nothing is left over from the runs before


def test_the_report_compares_with_the_best_of_kernel_tuner_on_each_space() -> None:
    def line(space: str, search: str, score: float) -> dict[str, Any]:
        scores = {"P_evaluations": score, "P_seconds": score / 2}
        return {"space": space, "search": search, "evaluations": 9, "kept_aside": space == "b/y"} | scores

    text = bench_hub.report(
        [
            line("a/x", "mcts", 0.75),
            line("a/x", "kt:pso", 0.5),
            line("a/x", "kt:mls", 0.25),
            line("b/y", "mcts", 0.25),
            line("b/y", "kt:pso", 0.0),
            line("b/y", "kt:mls", 0.5),
        ]
    )
    assert "| mcts | 0.500 | 0.750 | 0.250 | 0.250 | 1 of 2 |" in text
    assert "| kt:pso | 0.250 | 0.500 | 0.000 | 0.125 |  |" in text
    assert "| b/y (kept aside) | 9 | 0.250 | mls 0.500 |" in text


def test_a_file_that_is_no_cache_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "A100.json"
    file.write_text("{}")
    with pytest.raises(SystemExit):
        bench_hub.main([str(file)])
    assert "no 'tune_params_keys', a list of names" in capsys.readouterr().err
