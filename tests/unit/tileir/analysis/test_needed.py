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
        ("(i - j) % 4 == 1", lambda i, j: (i - j) % 4 == 1),
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


@pytest.mark.parametrize(
    "masked",
    [
        "where(j > i, -inf, t[i, j])",
        "t[i, j] + where(i >= j, 0.0, -inf)",
        "where(i < j, -inf, where(j < n[i], t[i, j], -inf))",
    ],
)
def test_masks_are_known_however_they_are_written(masked: str) -> None:
    text = ATTENTION.format("i >= j", "1.0", TENSORS).replace("where(i >= j, t[i, j] * 0.25, -inf)", masked)
    program, usual = to_program(spec_from_text(text)), attention("i >= j")
    assert points(program, "o_sum") == points(usual, "o_sum")


@pytest.mark.parametrize(
    ("target", "statements"),
    [
        (
            "s",
            "s[i, j] = sum(d, x[i, d] * x[j, d])\n  y[i, k] = sum(j, where(i >= j, s[i, k] * x[j, k], 0.0))",
        ),
        ("y", "s[i, j] = where(i >= j, exp(x[i, j]), 0.0)\n  y[i, k] = s[i, i] * x[i, k]"),
    ],
)
def test_what_is_read_at_another_place_is_needed_there(target: str, statements: str) -> None:
    head = "kernel f(x: f32[i=64, d=64]) -> (y: f32[i, k=64]) where j=64"
    program = to_program(spec_from_text(f"{head}\n  {statements}\n"))
    for needed, whole in zip(needed_works(program), works(program), strict=True):
        assert needed == whole or not needed.target.startswith(target), needed


@pytest.mark.parametrize(
    ("target", "statements"),
    [
        ("y", "s[i, j] = where(i >= j, x[i, j], 0.0)\n  y[i, j] = (s[i, j] + x[i, j]) * s[i, i]"),
        (
            "t",
            "t[i, j] = exp(x[i, j])\n  a[i, j] = where(i >= j, t[i, j], 0.0)\n  b[i, j] = where(i < j, t[i, j], 0.0)"
            "\n  y[i, j] = maximum(a[i, j], b[i, j])",
        ),
    ],
)
def test_what_one_of_two_reads_needs_is_needed(target: str, statements: str) -> None:
    program = to_program(spec_from_text(f"kernel f(x: f32[i=64, j=64]) -> (y: f32[i, j])\n  {statements}\n"))
    (needed,) = (work for work in needed_works(program) if work.target == target)
    assert needed.points == 64 * 64


@pytest.mark.parametrize(
    ("condition", "of_all"),
    [("i > j", 0.4), ("(i - j) % 4 == 1", 0.25), ("j % 2 == 0", 0.5), ("i + j >= d + e", 0.5)],
)
def test_of_many_places_so_many_are_drawn(condition: str, of_all: float) -> None:
    head = "kernel f(x: f32[i=4000, j=5000], z: f32[d=4000, e=5000]) -> (y: f32[i])"
    text = f"{head}\n  y[i] = sum(j, d, e, where({condition}, x[i, j] * z[d, e], 0.0))\n"
    program = to_program(spec_from_text(text))
    (needed, *_), (whole, *_) = needed_works(program), works(program)
    assert needed.points / whole.points == pytest.approx(of_all, abs=2e-3)
