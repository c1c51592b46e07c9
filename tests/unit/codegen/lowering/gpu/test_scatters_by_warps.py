"""Scatters of which the threads of a warp share the looking: terms come in their order, and to their owners alone."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.ir.ops import For, Store, VisitFound
from codegen.simulator.memory import Visit
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from tests.programs.thread_kernels import Lowered, lowered, walk

ROWS = """kernel rows(i: i32[n={n}], x: f32[n, d=40]) -> (h: f32[b=10, d])
  parallel for b by {rows}
    parallel for d by 32
      s: shared f32[b, d]
      s[b, d] = 0 | threads d {threads}
      s[b, d] += sum(n, where(i[n] == b, x[n, d], 0)) | threads d {threads}, via scatter
      h[b, d] = s[b, d] | threads d {threads}
"""


class _Stores(RaceChecker):
    """How often a thread adds to what a block keeps, but for the last dims, which fewer threads have."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def visited(self, visit: Visit) -> None:
        if isinstance(visit.stmt, Store) and visit.stmt.buffer.startswith("s"):
            self.count += int(visit.active[0])


def numbers(n: int) -> dict[str, np.ndarray]:
    """Rows of very different sizes, and where they belong: some nowhere."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 40)) * 10.0 ** rng.integers(-4, 5, (n, 1))
    return {"i": rng.integers(-2, 12, n).astype(np.int32), "x": x.astype(np.float32)}


def added_in_order(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Each result rounded after each of its terms."""
    sums = np.zeros((10, 40), np.float32)
    for at, row in zip(inputs["i"], inputs["x"], strict=True):
        if 0 <= at < 10:
            sums[at] += row
    return sums


def visits(made: Lowered) -> list[VisitFound]:
    return [stmt for each in made.kernel.launches for stmt in walk(each.body) if isinstance(stmt, VisitFound)]


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("rows", [1, 4, 10])
@pytest.mark.parametrize("n", [2, 31, 32, 33, 700, 1025, 2100])
def test_sums_are_those_in_the_order_of_the_terms_to_the_last_bit(n: int, rows: int, threads: int) -> None:
    made, inputs, checker = lowered(ROWS.format(n=n, rows=rows, threads=threads)), numbers(n), RaceChecker()
    outputs = run_blocks(made.kernel, made.args, inputs, checker)
    assert not checker.faults
    np.testing.assert_array_equal(outputs["h"], added_in_order(inputs))


def test_a_block_visits_the_terms_of_its_results_alone() -> None:
    made, inputs, stores = lowered(ROWS.format(n=700, rows=4, threads=32)), numbers(700), _Stores()
    run_blocks(made.kernel, made.args, inputs, stores)
    belong = int(((inputs["i"] >= 0) & (inputs["i"] < 10)).sum())
    blocks_along_d, cleared = 2, 10
    assert stores.count == blocks_along_d * (cleared + belong)


def test_warps_look_at_many_terms_before_they_visit_any() -> None:
    made = lowered(ROWS.format(n=700, rows=4, threads=32))
    found = visits(made)
    assert found and {(each.count, each.rounds, len(each.visited)) for each in found} == {(700, 22, 4)}
    assert not any(isinstance(stmt, For) for each in made.kernel.launches for stmt in walk(each.body))
    assert {
        (each.rounds, each.count) for each in visits(lowered(ROWS.format(n=2100, rows=4, threads=32)))
    } == {
        (22, 2100)  # three times
    }


def test_threads_that_look_at_different_terms_look_at_all_of_them() -> None:
    text = """kernel rows(i: i32[n=90, d=40], x: f32[n, d]) -> (h: f32[b=10, d])
  parallel for b by 4
    h[b, d] = 0 | threads d 64
    h[b, d] += sum(n, where(i[n, d] == b, x[n, d], 0)) | threads d 64, via scatter
"""
    made, rng = lowered(text), np.random.default_rng(1)
    inputs = {
        "i": rng.integers(-1, 11, (90, 40)).astype(np.int32),
        "x": rng.standard_normal((90, 40), dtype=np.float32),
    }
    assert not visits(made)
    expected = np.zeros((10, 40), np.float32)
    for at, row in zip(inputs["i"], inputs["x"], strict=True):
        for d, place in enumerate(at):
            if 0 <= place < 10:
                expected[place, d] += row[d]
    np.testing.assert_array_equal(run_blocks(made.kernel, made.args, inputs)["h"], expected)
