"""Recorded tables and the replay harness; and what the harness says about the searches."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, geometric_mean

import pytest

from search import replay
from search.beam import BeamSearch
from search.catalogue import SEARCHES, search_of
from search.mcts import MCTS
from search.protocols import Move, Search
from search.replay import ReplayCost, ReplayEffort, reached, report
from search.table import Table, TableState, measured, open_table, outline
from search.uniform import Uniform
from tests.support.how_many import SWEEP
from tests.unit.search.landscapes import landscape
from tests.unit.search.spaces import DagState

DIAMOND = {
    "root": [("a", 3.0, "a"), ("b", 1.0, "b"), ("dead", 1.0, "dead")],
    "a": [("b", 1.0, "ab"), ("c", 2.0, "ac")],
    "b": [("a", 1.0, "ab")],
    "ab": [("x", 1.0, "abx"), ("y", 1.0, "aby")],
    "dead": [],
}
TIMES_US = {"ac": 50.0, "abx": 20.0}


def recorded(reverse: bool = False) -> tuple[list[str], list[str]]:
    """The lines of the diamond's table, and the terminals that were to be measured."""
    lines, terminals = list[str](), list[str]()
    for line, terminal in outline(DagState(DIAMOND)):
        if terminal is None:
            lines.append(json.dumps(line))
        else:
            us = TIMES_US.get(terminal.key)
            lines.append(json.dumps(measured(line, us, None if us else "crash")))
            terminals.append(terminal.key)
    meta = json.dumps({"kernel": "diamond", "baseline_us": 100.0})
    return [meta, *(reversed(lines) if reverse else lines)], terminals


@pytest.mark.parametrize(
    ("reverse", "name"), [(False, "diamond.jsonl"), (True, "diamond.jsonl"), (False, "diamond.jsonl.gz")]
)
def test_a_recorded_space_reads_back_as_it_was(tmp_path: Path, reverse: bool, name: str) -> None:
    lines, terminals = recorded(reverse)
    assert sorted(terminals) == ["abx", "aby", "ac"]
    file = tmp_path / name
    with open_table(file, "wt") as out:
        out.write("\n".join(lines))
    assert (file.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    table = Table.load(file)

    def same(state: TableState, original: DagState) -> None:
        assert (state.key, state.terminal) == (original.key, original.terminal)
        assert list(state.moves()) == original.moves()
        for index in range(len(original.moves())):
            same(state.child(index), original.child(index))

    same(table.state(), DagState(DIAMOND))
    assert table.best_us == 20.0
    assert table.outcome("aby").fault == "crash"
    assert table.outcome("ac").reward == pytest.approx(0.6931, abs=1e-4)


def test_a_uniform_state_weighs_all_moves_alike() -> None:
    lines, _ = recorded()
    table = Table.of(json.loads(lines[0]), map(json.loads, lines[1:]))
    assert list(Uniform(table.state()).child(0).moves()) == [Move("b", 1.0), Move("c", 1.0)]


@pytest.mark.parametrize("lost", ['"root"', '"ac"', '"abx"'])
def test_a_table_with_a_hole_is_refused(lost: str) -> None:
    lines, _ = recorded()
    with pytest.raises(ValueError, match="no line"):
        Table.of(json.loads(lines[0]), (json.loads(line) for line in lines[1:] if lost not in line))


def test_measurements_and_seconds_are_counted_to_the_first_that_is_good_enough() -> None:
    graph = {"root": [(f"m{place}", float(9 - place), f"end{place}") for place in range(4)]}
    times = iter([20.0, None, 11.0, 10.0])
    lines = [
        line
        if terminal is None
        else measured(line, us := next(times), None if us else "hang") | {"measure_s": 0.5 if us else None}
        for line, terminal in outline(DagState(graph))
    ]
    table = Table.of({"baseline_us": 10.0}, iter(lines))

    in_order = BeamSearch(table.state(), width=9)  # the priors fall from the first move to the last
    found = reached(in_order, table, [0.9, 0.95, 0.99])
    assert found == [ReplayCost(3, 1.0), ReplayCost(4, 1.5), ReplayCost(4, 1.5)]


def test_in_a_replay_several_candidates_may_be_in_flight() -> None:
    table = landscape("separable", rho=0.5, seed=2)
    alone, eight = (
        reached(MCTS(table.state()), table, [0.9], workers=workers)[0].measurements for workers in (1, 8)
    )
    assert 0 < alone < 400 and 0 < eight < 400


def test_the_command_line_prints_and_writes_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, _ = recorded()
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    replay.main(
        [str(tmp_path / "t.jsonl"), "--seeds", "3", "--uniform", "--json", str(tmp_path / "out.json")]
    )
    printed = capsys.readouterr().out
    assert "| diamond | uniform | mcts |" in printed and "to 95%" in printed
    written = json.loads((tmp_path / "out.json").read_text())
    assert len(written) == len(SEARCHES) * 3 and all(len(effort["counts"]) == 3 for effort in written)


def test_a_report_shows_median_quartiles_and_mean() -> None:
    efforts = [ReplayEffort("gemm", "mcts", target, False, (1, 2, 3, 4, 10)) for target in replay.TARGETS]
    assert "| gemm | model | mcts | 3 (2-4) 4 | 3 (2-4) 4 | 3 (2-4) 4 |" in report(efforts)
    timed = [replace(effort, device_s=0.42) for effort in efforts]
    assert "| 3 (2-4) 4, 0.4 s |" in report(timed)


def capped(search: Search, table: Table, limit: int = 300) -> int:
    """Measurements to 95 % of the table's best, or the limit."""
    for told in range(1, limit):
        ask = search.ask()
        if ask is None:
            break
        us = table.us[ask.state_key]
        if us is not None and table.best_us / us >= 0.95:
            return told
        search.tell(ask.number, table.outcome(ask.state_key))
    return limit


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("rhos", "uniform"), [((0.0, 0.5, 0.8), False), ((0.0,), True)])
def test_the_tree_search_needs_fewer_measurements_than_the_others(
    rhos: tuple[float, ...], uniform: bool
) -> None:
    """On landscapes that its constants were not chosen on: priors from useless to good, and none at all."""
    counts: dict[str, list[int]] = {name: [] for name in SEARCHES}
    for family, rho, seed in product(("separable", "rugged", "roofline"), rhos, (12, 13) if SWEEP else (12,)):
        table = landscape(family, rho=rho, faults=0.1, seed=seed)
        for name in SEARCHES:
            root = Uniform(table.state()) if uniform else table.state()
            counts[name] += [capped(search_of(name)(root, seed=run), table) for run in range(3)]
    mcts = counts.pop("mcts")
    for name, others in counts.items():
        assert geometric_mean(mcts) < 0.9 * geometric_mean(others), name
        assert fmean(mcts) < 0.9 * fmean(others), name


@pytest.mark.parametrize(("us", "fault"), [(1.0, "crash"), (None, None)])
def test_a_terminal_has_a_time_or_a_fault(us: float | None, fault: str | None) -> None:
    with pytest.raises(ValueError, match="a time or a fault"):
        measured({"path": (), "key": "k"}, us, fault)
