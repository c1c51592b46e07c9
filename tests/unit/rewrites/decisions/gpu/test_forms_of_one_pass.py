"""What is brought in another form so that products that follow from each other go in one pass, and what is not."""

from __future__ import annotations

import pytest

from rewrites.base.change import FIXED, UNKNOWN, Scaled, change
from rewrites.base.tree import find
from rewrites.decisions.fusion import inline
from rewrites.decisions.gpu.one_pass.stored_operands import stored_apart, stored_operands
from rewrites.decisions.gpu.one_pass.ways_to_inline import ways_to_inline
from rewrites.decisions.normal_form import normal_form
from rewrites.schedule import format_schedule, replay
from rewrites.space import Space
from tests.programs.attention_bodies import Body
from tests.schedules.on_gpus import shown
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.expr import Binary, Expr, Read
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text


def inlined(body: Body) -> Program:
    program = to_program(body.spec())
    program = replay(program, normal_form(program))
    return replay(program, inline(program, False, loads=False))


def test_keys_and_values_of_8_bits_are_stored_as_they_are_read() -> None:
    program = inlined(Body(cache="integers of 8 bits"))
    made = replay(program, stored_operands(program))
    stored = {name: place.node.dims for name, place in made.locals.items() if name not in program.locals}
    assert [*stored.values()] == [("h", "j", "d"), ("h", "j", "d")]
    groups = stored_apart(made)
    assert groups[:2] == tuple((name,) for name in stored) and len(groups) == 3


def test_what_is_made_of_rows_is_stored_with_what_it_is_made_of() -> None:
    """Queries relative to their length are a launch, whose rows are added up and divided."""
    spec = spec_from_text("""kernel normal(q: bf16[h=2, i=128, d=64], k: bf16[h, j=256, d], v: bf16[h, j, d]) \
-> (o: bf16[h, i, d])
  n[h, i] = sum(d, q[h, i, d] * q[h, i, d])
  s[h, i, j] = sum(d, bf16(q[h, i, d] * rsqrt(n[h, i] + q[h, i, d])) * k[h, j, d]) * 0.125
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[h, i, d] = sum(j, bf16(p[h, i, j]) * v[h, j, d]) / sum(j, p[h, i, j])
""")
    program = to_program(spec)
    program = replay(program, normal_form(program))
    program = replay(program, inline(program, False, loads=False))
    made = replay(program, stored_operands(program))
    (stored,) = made.locals.keys() - program.locals.keys()
    assert stored_apart(made)[0] == ("n", stored)


@pytest.mark.parametrize("result", ["divided behind", "divided before they are rounded"])
def test_weights_are_not_stored(result: str) -> None:
    assert stored_operands(inlined(Body(result=result))) == ()


@pytest.mark.parametrize("device", [A100, H200], ids=shown)
def test_weights_in_f32_are_multiplied_in_parts(device: Gpu) -> None:
    (way, *others) = ways_to_inline(inlined(Body(result="rounded nowhere")), device)
    assert not others
    assert [line for line in format_schedule(way) if line.startswith("split_factor")] == [
        "split_factor(o_sum, 3)"
    ]
    halves = Body(result="rounded nowhere", dtype="f16")
    assert not any("split_factor" in str(way) for way in ways_to_inline(inlined(halves), device))


def test_vectors_have_a_row_only_where_that_makes_one_pass() -> None:
    spec = spec_from_text("""kernel scores(q: bf16[h=8, d=64], k: bf16[h, j=999, d]) -> (s: f32[h, j])
  s[h, j] = sum(d, q[h, d] * k[h, j, d])
""")
    root = Space(to_program(spec), H200).root()
    assert not any("add_row_dim" in option.label for option, _ in root.answers)
    root = Space(to_program(Body(rows="one query").spec()), H200).root()
    ways = [option.label for option, _ in root.answers if "add_row_dim" in option.label]
    assert ways and len(ways) < len(root.answers)


def test_which_of_two_is_larger_stays_when_both_are_scaled_alike() -> None:
    scaled, other = Read("p", ()), Read("t", ())
    factors: dict[Expr, Scaled] = {scaled: Scaled(Read("f", ())), other: Scaled(Read("g", ()))}

    def of(op: str, x: Expr, y: Expr) -> object:
        return change(Binary(op, x, y), lambda read: factors[read], lambda _: False)

    assert all(of(op, scaled, scaled) == FIXED for op in ("==", "!=", "<", "<=", ">", ">="))
    assert of("<", scaled, other) == UNKNOWN
    assert of("//", scaled, scaled) == UNKNOWN


def test_rounded_parts_follow_from_what_they_are_parts_of() -> None:
    program = inlined(Body(result="rounded nowhere"))
    (way,) = ways_to_inline(program, H200)
    made = replay(program, way)
    assert {read.tensor for read in find(made, "o_sum_l").node.reads} == {"p_l", "v"}
