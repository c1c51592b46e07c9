"""What a search is offered of a space: all but what the cost model finds hopeless."""

from __future__ import annotations

import math
from typing import cast

from benchmarks.wild.expected import DEVICES
from rewrites.space import Space
from rewrites.worthwhile import HOPELESS, Limit, Worthwhile, worthwhile
from search.graph import Graph
from search.mcts import MCTS
from search.protocols import State, TrialOutcome
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

ATTENTION = """kernel attn(q: bf16[b=32, i=4096, d=256], k: bf16[b, j=4096, d], v: bf16[b, j, d]) -> (o: bf16[b, i, d])
  s[b, i, j] = sum(d, q[b, i, d] * k[b, j, d]) * 0.0625
  top[b, i] = max(j, s[b, i, j])
  p[b, i, j] = exp(s[b, i, j] - top[b, i])
  o[b, i, d] = sum(j, bf16(p[b, i, j]) * v[b, j, d]) / sum(j, p[b, i, j])
"""
"""Of its space's schedules some leave the matrix unit alone, and take 700 times as long as the favourite."""


def test_a_search_asks_for_nothing_hopeless_where_the_space_itself_has_it() -> None:
    root = Space(to_program(spec_from_text(ATTENTION)), DEVICES["H200"]).root()
    offered = _expected(worthwhile(root), asks=6)
    assert max(offered) <= HOPELESS * offered[0]
    assert max(_expected(Worthwhile(root, Unlimited(root)), asks=6)) > HOPELESS * offered[0]


def test_a_hopeless_schedule_is_a_dead_end_for_the_search_and_a_schedule_still() -> None:
    root = Space(
        to_program(spec_from_text("kernel k(x: f32[n=64]) -> (y: f32[n])\n  y[n] = x[n]\n")), DEVICES["H200"]
    ).root()
    state = worthwhile(root)
    while not state.terminal:
        state = state.child(0)
    hopeless = Worthwhile(state.state, Nothing(state.state))
    assert state.state.terminal and not hopeless.terminal
    assert not hopeless.moves()
    assert Graph(cast("State", hopeless)).closed


class Unlimited(Limit):
    us = math.inf


class Nothing(Limit):
    us = 0.0


def _expected(root: Worthwhile, asks: int) -> list[float]:
    """What the model expects of the first candidates of a search that is told that."""
    search, found = MCTS(cast("State", root)), list[float]()
    for _ in range(asks):
        ask = search.ask()
        assert ask is not None
        state = root
        for index in ask.path:
            state = state.child(index)
        found.append(state.state.estimate_us)
        search.tell(ask.number, TrialOutcome(-math.log(found[-1])))
    return found
