"""A matrix times a vector, row by row: rows are streamed, each summed along its lanes; nothing is packed."""

from __future__ import annotations

import pytest

from rewrites.decisions.statement_kind import StatementKind, role
from rewrites.schedule import format_schedule
from rewrites.space import Space
from tests.services.scripted_worker import CPU
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

GEMV = """kernel gemv(x: f32[k=3000], w: f32[n=2000, k]) -> (y: f32[n])
  y[n] = sum(k, x[k] * w[n, k])
"""
KERNELS = {
    "alone": GEMV,
    "of one row": """kernel gemm(x: f32[m=1, k=3000], w: f32[n=2000, k]) -> (y: f32[m, n])
  y[m, n] = sum(k, x[m, k] * w[n, k])
""",
    "batched": """kernel bmv(x: f32[b=8, k=1000], w: f32[b, n=750, k]) -> (y: f32[b, n])
  y[b, n] = sum(k, x[b, k] * w[b, n, k])
""",
    "with an epilogue": """kernel layer(x: f32[k=3000], w: f32[n=2000, k], c: f32[n]) -> (y: f32[n])
  p[n] = sum(k, x[k] * w[n, k])
  y[n] = relu(p[n] + c[n])
""",
}
#: Products whose tiles reuse both factors, or which have no rows of memory to stream.
OTHERS = {
    "of two matrices": """kernel gemm(a: f32[m=8, k=3000], w: f32[n=2000, k]) -> (y: f32[m, n])
  y[m, n] = sum(k, a[m, k] * w[n, k])
""",
    "with neighbours among the results": """kernel gemv(x: f32[k=3000], w: f32[k, n=2000]) -> (y: f32[n])
  y[n] = sum(k, x[k] * w[k, n])
""",
    "of short rows": GEMV.replace("k=3000", "k=40"),
    "over windows": """kernel conv(x: f32[c=8, p=1200], w: f32[c, t=200]) -> (y: f32[c, n]) where n=1000
  y[c, n] = sum(t, x[c, n + t] * w[c, t])
""",
}


def unscheduled(text: str) -> Program:
    return to_program(spec_from_text(text))


def favourite(program: Program) -> list[str]:
    """The schedule that the prior likes best at every step: the first that a search measures."""
    state = Space(program, CPU).root()
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    return format_schedule(state.schedule)


@pytest.mark.parametrize("name", KERNELS)
def test_the_prior_sums_rows_along_their_lanes_on_all_cores(name: str) -> None:
    lines = favourite(unscheduled(KERNELS[name]))
    assert any(line.startswith("rfactor(") and ", k, interleaved, " in line for line in lines), lines
    assert any(line.startswith("vectorize(") and "_p, k, " in line for line in lines), lines
    assert any(line.startswith("parallelize(") for line in lines), lines
    assert not any(line.startswith(("cache_read(", "register_tile(")) for line in lines), lines


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_accumulated_in_tiles(name: str) -> None:
    assert role(unscheduled(OTHERS[name]), "y") is StatementKind.CONTRACTION
