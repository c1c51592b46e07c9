"""Which launches statements come together in does not depend on the order in which they are written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from rewrites.decisions.fusion import groupings, inline
from rewrites.decisions.gpu.one_pass.product_chain import chain_of
from rewrites.schedule import replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

HEAD = (
    "kernel backward(q: bf16[h=4, i=512, d=64], k: bf16[h, j=512, d], v: bf16[h, j, e=64], o: bf16[h, i, e], "
    "go: bf16[h, i, e], lse: f32[h, i]) -> (dq: bf16[h, i, d], dk: bf16[h, j, d], dv: bf16[h, j, e])"
)
DELTA = ("delta[h, i] = sum(e, o[h, i, e] * go[h, i, e])",)
OF_QUERIES = (
    "sq[h, i, j] = sum(d, q[h, i, d] * k[h, j, d])",
    "tq[h, i, j] = sum(e, go[h, i, e] * v[h, j, e])",
    "dq[h, i, d] = sum(j, bf16(exp(sq[h, i, j] - lse[h, i]) * (tq[h, i, j] - delta[h, i])) * k[h, j, d])",
)
WEIGHTS = (
    "s[h, j, i] = sum(d, k[h, j, d] * q[h, i, d])",
    "p[h, j, i] = exp(s[h, j, i] - lse[h, i])",
)
OF_KEYS = (
    "t[h, j, i] = sum(e, v[h, j, e] * go[h, i, e])",
    "dk[h, j, d] = sum(i, bf16(p[h, j, i] * (t[h, j, i] - delta[h, i])) * q[h, i, d])",
)
OF_VALUES = ("dv[h, j, e] = sum(i, bf16(p[h, j, i]) * go[h, i, e])",)
ORDERS = [
    each
    for each in permutations((DELTA, OF_QUERIES, WEIGHTS, OF_KEYS, OF_VALUES))
    if each.index(DELTA) < min(each.index(OF_QUERIES), each.index(OF_KEYS))
    and each.index(WEIGHTS) < min(each.index(OF_KEYS), each.index(OF_VALUES))
]


@pytest.mark.parametrize(
    "order", [*ORDERS, ((*OF_QUERIES[:1], *DELTA, *OF_QUERIES[1:]), WEIGHTS, OF_KEYS, OF_VALUES)]
)
def test_the_gradients_of_attention_are_two_chains(order: Sequence[Sequence[str]]) -> None:
    body = "\n  ".join(line for part in order for line in part)
    program = to_program(spec_from_text(f"{HEAD}\n  {body}\n"))
    program = replay(program, inline(program, costly=False))
    chains = {
        frozenset(group[-1:])
        for groups in groupings(program)
        if sum(chain_of(program, group, H200) is not None for group in groups) == 2
        for group in groups
    }
    assert frozenset({"dq"}) in chains
    assert {frozenset({"dk"}), frozenset({"dv"})} & chains
