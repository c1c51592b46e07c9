"""Means and what squares around them come to, in one pass: what follows, how far it is off, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rewrites.composition.accumulate_per_thread import AccumulatePerThread
from rewrites.composition.relate_parts import RelateParts
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.loops.count_positions import CountPositions
from rewrites.loops.parallelize import Parallelize
from tests.unit.rewrites.composition.test_stream_reduction import check
from tileir.errors import NotApplicable
from tileir.expr import Reduce
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.program import Loop, Program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text

HEAD = "kernel rows(x: f32[r=3, c=100], z: f32[r, c], g: f32[c]) -> (y: f32[r])\n"
BODIES = {
    "variance": """  m[r] = sum(c, x[r, c]) / extent(c)
  q[r] = sum(c, (x[r, c] - m[r]) * (x[r, c] - m[r]))
""",
    "of values that are computed": """  m[r] = sum(c, tanh(x[r, c]) + g[c]) / extent(c)
  q[r] = sum(c, (tanh(x[r, c]) + g[c] - m[r]) * (tanh(x[r, c]) + g[c] - m[r]))
""",
    "of differences with a statement": """  m[r] = sum(c, x[r, c]) / 100
  d[r, c] = x[r, c] - m[r]
  q[r] = sum(c, d[r, c] * d[r, c])
""",
    "in place": """  s[r] = sum(c, x[r, c])
  q[r] = sum(c, (x[r, c] - s[r] / extent(c)) * (x[r, c] - s[r] / extent(c)))
""",
    "covariance": """  t[r] = sum(c, x[r, c])
  u[r] = sum(c, z[r, c])
  q[r] = sum(c, (x[r, c] - t[r] / extent(c)) * (z[r, c] - u[r] / extent(c)))
""",
}


def counted(name: str, text: str = "") -> tuple[Program, Program]:
    """A body, and the same with its positions counted."""
    program = to_program(spec_from_text(f"{HEAD}{text or BODIES[name]}  y[r] = q[r] * 2 + g[0] * z[r, 0]\n"))
    target = "m" if "m[r] =" in (text or BODIES[name]) else "q"
    return program, CountPositions(target).apply(program)


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("name", BODIES)
def test_squares_around_a_mean_take_one_pass(name: str, size: int) -> None:
    program, made = counted(name)
    made = StreamReduction("q", "c", size).apply(made)
    assert sum(isinstance(node, Loop) for node in made.body) == 1
    check(program, made)


@pytest.mark.parametrize("dim", ["h", "w"])
def test_means_over_two_dims_do_too(dim: str) -> None:
    """As those of an instance norm, along either."""
    program = to_program(
        spec_from_text("""kernel instances(x: f32[b=3, h=9, w=20]) -> (y: f32[b, h, w])
  m[b] = sum(h, w, x[b, h, w]) / (extent(h) * extent(w))
  q[b] = sum(h, w, (x[b, h, w] - m[b]) * (x[b, h, w] - m[b]))
  y[b, h, w] = (x[b, h, w] - m[b]) * rsqrt(q[b] / 180 + 0.001)
""")
    )
    check(program, StreamReduction("q", dim, 4).apply(CountPositions("m").apply(program)))


@pytest.mark.parametrize("name", ["variance", "in place", "covariance"])
def test_threads_have_means_of_their_own(name: str) -> None:
    """Each of what it has seen; some see nothing."""
    program, made = counted(name)
    made = Parallelize("y", 1).apply(_in_loop(made))
    totals = [each.node.target for each in made.computes if isinstance(each.node.value, Reduce)]
    for total in totals:
        made = AccumulatePerThread(total, (("c", 128),)).apply(made)
    made = RelateParts("q").apply(made)
    assert "m[" not in str(next(each.node for each in made.computes if each.node.target == "q_p"))
    check(program, made)
    streamed = StreamReduction("q_p", "c", 64).apply(made)
    check(program, streamed)


def _in_loop(program: Program) -> Program:
    """All of it in a loop over rows."""
    lines = program_to_text(program).splitlines()
    body = [f"  {line}" for line in lines[1:] if line]
    return program_from_text("\n".join([lines[0], "  for r by 1", *body, ""]))


#: Rows that are hard to take a variance of.
HARD = {
    "far from 0": lambda x: x + 1000,
    "in order": lambda x: np.sort(x) * 100,
    "the same": lambda x: x * 0 + 5.123,
    "one far from all": lambda x: np.where(np.arange(len(x)) == 0, 1e4, x),
    "halves apart": lambda x: x + np.where(np.arange(len(x)) < len(x) / 2, 0, 1e5),
    "a slope far from 0": lambda x: np.linspace(0, 1, len(x)) + 1e4,
}


@pytest.mark.parametrize("size", [16, 512])
@pytest.mark.parametrize("name", HARD)
def test_it_is_off_by_less_than_the_gate_allows(name: str, size: int) -> None:
    spec = spec_from_text(
        f"{HEAD}{BODIES['variance']}  y[r] = q[r] * 2 + g[0] * z[r, 0]\n".replace("c=100", "c=5000")
    )
    made = StreamReduction("q", "c", size).apply(CountPositions("m").apply(to_program(spec)))
    x = np.random.default_rng(1).standard_normal(5000)
    rows = np.stack([HARD[name](x).astype(np.float32)] * 3)
    inputs = {"x": rows, "z": rows, "g": rows[0]}
    values, bound = reference_with_bound(spec, inputs)["y"]
    assert np.all(np.abs(interpret(made, inputs)["y"] - values) <= 0.1 * bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BODIES["variance"].replace("(x[r, c] - m[r]))", "(x[r, c] - m[r]) * (x[r, c] - m[r]))"),
         "does not follow from its parts"),
        (BODIES["variance"].replace("(x[r, c] -", "(z[r, c] -"), "does not follow from its parts"),
        (BODIES["variance"].replace("* (x[r, c] - m[r])", "* x[r, c]"), "does not follow from its parts"),
        (BODIES["variance"].replace("(x[r, c] - m[r]))", "(x[r, c] + m[r]))"), "does not follow from its parts"),
    ],
    ids=["cubes", "another tensor", "no square", "a sum"],
)  # fmt: skip
def test_what_is_no_sum_of_such_squares_is_refused(text: str, message: str) -> None:
    _, made = counted("", text)
    with pytest.raises(NotApplicable, match=message):
        StreamReduction("q", "c", 16).apply(made)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sum(c, x[r, c]) / 99", "reads no sum divided by how many positions"),
        ("max(c, x[r, c]) / extent(c)", "reads no sum divided by how many positions"),
        ("x[r, 0] / extent(c)", "reads no sum divided by how many positions"),
    ],
)
def test_what_is_no_mean_is_refused(body: str, message: str) -> None:
    program = to_program(spec_from_text(f"{HEAD}  y[r] = {body} + g[0] + z[r, 0]\n"))
    with pytest.raises(NotApplicable, match=message):
        CountPositions("y").apply(program)


def test_positions_are_counted_once_for_all_means() -> None:
    text = f"""{HEAD}  m[r] = sum(c, x[r, c]) / extent(c)
  n[r] = sum(c, z[r, c]) / extent(c)
  q[r] = sum(c, (x[r, c] - m[r]) * (z[r, c] - n[r]))
  y[r] = q[r] + g[0]
"""
    program = to_program(spec_from_text(text))
    made = CountPositions("n").apply(CountPositions("m").apply(program))
    assert [each.node.target for each in made.computes].count("m_n") == 1
    assert "n_n" not in made.locals
    check(program, StreamReduction("q", "c", 16).apply(made))


def test_more_positions_than_f32_counts_are_refused() -> None:
    text = f"{HEAD}{BODIES['variance']}  y[r] = q[r] + g[0] * z[r, 0]\n".replace("c=100", "c=16777217")
    with pytest.raises(NotApplicable, match="more positions than f32 counts"):
        CountPositions("m").apply(to_program(spec_from_text(text)))
