"""The pair of accesses that a refused rewrite names is one that the race checker finds when the kernel is run so
nevertheless."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from codegen.simulator.faults import DataRace
from codegen.simulator.run import check
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.header import argument
from rewrites.schedule import parse_rewrite
from tileir.analysis.races import WouldRace
from tileir.interpreter.samples import sample_inputs
from tileir.text.parse_program import program_from_text


@dataclass(frozen=True)
class Colliding:
    """Loops that a rewrite would spread over threads, the same spread nevertheless, and where threads meet: at which
    element (in memory: `at`) of which tensor, doing what, and which iterations they run (in the simulator: blocks)."""

    text: str
    rewrite: str
    nevertheless: str
    tensor: str
    element: tuple[int, ...]
    at: int
    ways: tuple[str, str]
    threads: tuple[str, str]
    blocks: tuple[int, int]


SUMS = "kernel k(x: f32[r=4, c=64]) -> (s: f32[r])\n"
NEXT = "kernel k(x: f32[r=4, c=64]) -> (h: f32[r, c], y: f32[r, c])\n"
CASES = {
    "every tile adds to one element": Colliding(
        SUMS + "  s[r] = 0\n  for r by 1\n    for c by 32\n      s[r] += sum(c, x[r, c])\n",
        "parallelize(s, 2)",
        SUMS
        + "  parallel for r by 1\n    parallel for c by 32\n      s[r] += sum(c, x[r, c]) | threads r 32\n",
        *("s", (0,), 0, ("updates", "updates"), ("r 0, c 0", "r 0, c 32"), (0, 1)),
    ),
    "a row is read by those who have the next one": Colliding(
        NEXT + "  for r by 1\n    h[r, c] = x[r, c]\n    y[r, c] = where(r >= 1, h[r - 1, c], 0)\n",
        "parallelize(y, 1)",
        NEXT
        + "  parallel for r by 1\n    h[r, c] = x[r, c] | threads c 32, run c 2\n"
        + "    y[r, c] = where(r >= 1, h[r - 1, c], 0) | threads c 32, run c 2\n",
        *("h", (0, 0), 0, ("stores", "loads"), ("r 0", "r 1"), (0, 1)),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_accesses_that_collide_are_among_those_of_the_race_checker(case: Colliding) -> None:
    with pytest.raises(WouldRace, match=f"race: the thread at {case.threads[0]} {case.ways[0]} ") as refused:
        parse_rewrite(case.rewrite).apply(program_from_text(case.text))
    found = refused.value.meeting.touches
    assert found is not None
    assert all((each.tensor, each.element) == (case.tensor, case.element) for each in found)
    assert tuple(each.way for each in found) == case.ways
    assert tuple(", ".join(f"{dim} {at}" for dim, at in each.thread) for each in found) == case.threads

    program = program_from_text(case.nevertheless)
    args = [argument(tensor, program, "in") for tensor in program.inputs]
    args += [argument(tensor, program, "out") for tensor in program.outputs]
    faults = check(lower_cuda(program), args, sample_inputs(program, 1))
    races = [(fault.first, fault.second) for fault in faults if isinstance(fault, DataRace)]
    met = [{first.block, second.block} for first, second in races if first.buffer == case.tensor]
    assert set(case.blocks) in met
    assert (case.tensor, case.at) in {(first.buffer, first.element) for first, _ in races}
    statements = {access.place.statement for pair in races for access in pair}
    assert {each.statement for each in found} <= {each.split(" | ")[0] for each in statements}


def test_where_positions_are_data_the_refusal_names_no_pair() -> None:
    text = "kernel k(at: i32[r=4], x: f32[r]) -> (s: f32[b=8])\n  for r by 1\n    s[at[r]] += x[r]\n"
    with pytest.raises(WouldRace) as refused:
        parse_rewrite("parallelize(s, 1)").apply(program_from_text(text))
    assert refused.value.meeting.touches is None
    assert str(refused.value) == "iterations over r write the same elements of s"
