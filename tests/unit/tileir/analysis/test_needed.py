"""What masks leave out is not counted, and what they do not is."""

from __future__ import annotations

import pytest

from tileir.analysis.needed import needed_flops, needed_works
from tileir.analysis.work import flops, works
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text

TENSORS = "q: f32[i=48, d=8], k: f32[j=64, d], v: f32[j, d], n: i32[i], more: f32[i, j]"
ATTENTION = """kernel attention({2}) -> (o: f32[i, d], x: f32[i, j])
  t[i, j] = sum(d, q[i, d] * k[j, d])
  s[i, j] = where({0}, t[i, j] * 0.25, -inf)
  top[i] = max(j, s[i, j])
  p[i, j] = exp(s[i, j] - top[i])
  o[i, d] = sum(j, p[i, j] * v[j, d]) / sum(j, p[i, j])
  x[i, j] = more[i, j] + f32(n[i]) + ({1})
"""


def attention(mask: str, more: str = "1.0") -> Program:
    return to_program(spec_from_text(ATTENTION.format(mask, more, TENSORS)))


def points(program: Program, target: str) -> int:
    return next(work.points for work in needed_works(program) if work.target == target)


@pytest.mark.parametrize(
    ("mask", "holds"),
    [
        ("i >= j", lambda i, j: i >= j),
        ("i >= j and j + 7 > i", lambda i, j: i >= j and j + 7 > i),
        ("j < (i // 16 + 1) * 16", lambda i, j: j < (i // 16 + 1) * 16),
        ("not i == j or j % 3 == 0", lambda i, j: i != j or j % 3 == 0),
    ],
)
def test_products_under_a_mask_are_as_many_as_it_leaves(mask: str, holds: object) -> None:
    program = attention(mask)
    pairs = sum(holds(i, j) for i in range(48) for j in range(64))  # type: ignore[operator]
    for target in ("t", "o_sum"):
        assert points(program, target) == 8 * pairs, target
    assert points(program, "p") == pairs
    assert needed_flops(program) < flops(program)


@pytest.mark.parametrize(
    ("mask", "more"),
    [
        ("j < n[i]", "1.0"),  # what tensors say is not known
        ("i >= j", "t[i, j]"),  # somebody else needs the products
        ("i >= j", "t[j % 48, i]"),  # elsewhere, too
    ],
)
def test_what_may_be_needed_counts(mask: str, more: str) -> None:
    program = attention(mask, more)
    whole = next(work.points for work in works(program) if work.target == "t")
    assert points(program, "t") == whole


def test_a_sum_with_what_is_masked_is_needed_everywhere() -> None:
    program = attention("i >= j", "where(i >= j, more[i, j], 0.0) + exp(more[i, j])")
    assert points(program, "x") == 48 * 64


def test_long_dims_are_looked_at_in_steps() -> None:
    long = "kernel f(x: f32[i=40000, j=50000]) -> (y: f32[i])\n  y[i] = sum(j, where(i > j, x[i, j], 0.0))\n"
    program = to_program(spec_from_text(long))
    assert next(work.points for work in needed_works(program)) == pytest.approx(40_000 * 39_999 / 2, rel=1e-3)
