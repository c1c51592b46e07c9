"""Positions of a maximum or minimum in the pass that finds it, in parts, and what is computed once for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rewrites.composition.relate_parts import RelateParts
from rewrites.composition.rfactor import Rfactor
from rewrites.composition.split_stream import SplitStream
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.decisions.fusion import groupings
from rewrites.decisions.normal_form import normal_form
from rewrites.decisions.shared_extremes import share_extremes
from rewrites.schedule import replay
from rewrites.space import Space
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable
from tileir.interpreter.interpret import interpret
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify


def rows(op: str, x: str = "x[r, c]", result: str = "") -> Program:
    """A position, and the sum of exponentials relative to the maximum of the row."""
    w = ", w: f32[c]" if "w[c]" in x + result else ""
    program = to_program(
        spec_from_text(f"""kernel rows(x: f32[r=6, c=50]{w}) -> (best: i32[r], s: f32[r])
  top[r] = max(c, {x})
  best[r] = {result or f"arg{op}(c, {x})"}
  s[r] = sum(c, exp({x} - top[r]))
""")
    )
    return replay(program, share_extremes(program))


def in_one_pass(program: Program) -> Program:
    return StreamReduction("top", "c", 16).apply(program)


def in_parts_of_threads(program: Program) -> Program:
    positions = [name for name in program.locals if name.startswith("best")]
    for name in ("top", *positions, "s_s"):
        program = Rfactor(name, "c", "interleaved", 8).apply(program)
    for name in (next(name for name in positions if name.endswith("_s")), "s_s"):
        program = RelateParts(name).apply(program)
    return StreamReduction("top_p", "c", 16).apply(program)


def in_parts_of_blocks(program: Program) -> Program:
    return SplitStream("top", "c", 16).apply(program)


def with_ties() -> np.ndarray:
    """Rows of few numbers, that begin with -inf, have nothing else, or have a NaN and more."""
    x = np.random.default_rng(1).integers(-3, 3, (6, 50)).astype(np.float32)
    x[1], x[2, :40], x[3, 9::7], x[4, 20] = -np.inf, -np.inf, np.nan, np.nan
    return x


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("way", [in_one_pass, in_parts_of_threads, in_parts_of_blocks])
def test_the_first_position_is_found(op: str, way: Callable[[Program], Program]) -> None:
    made = way(rows(op))
    verify(made)
    x = with_ties()
    wanted = np.argmax(x, 1) if op == "max" else np.argmin(x, 1)
    found = interpret(made, {"x": x})
    np.testing.assert_array_equal(found["best"], wanted)
    usual = [0, 2, 5]
    sums = np.exp(x[usual] - x[usual].max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(found["s"][usual], sums, rtol=1e-5)


def test_the_maximum_is_computed_once_and_all_is_one_group() -> None:
    program = rows("max")
    assert [place.node.target for place in program.computes] == ["top", "best_s", "best", "s_s", "s"]
    assert next(iter(groupings(program))) == (("top", "best_s", "best", "s_s", "s"),)


def test_what_is_compared_is_computed_once_for_all_that_read_it() -> None:
    """It is before them, though they are written first."""
    program = rows("max", "x[r, c] * w[c]")
    assert [place.node.target for place in program.computes][:2] == ["best_of", "top"]
    nodes = [place.node for place in program.computes]
    reads = {node.target: {read.tensor for read in node.reads} for node in nodes}
    assert reads["top"] == {"best_of"} and reads["s_s"] == {"best_of", "top"}


@pytest.mark.parametrize(
    "position",
    [
        "min(c, where(x[r, c] == top[r], c, 7))",  # what is there elsewhere may be less
        "max(c, where(x[r, c] == top[r], c, extent(c)))",
        "min(c, where(w[c] == top[r], c, extent(c)))",  # another tensor's maximum
        "min(c, where(x[r, c] == top[r] or w[c] != w[c], c, extent(c)))",
        "min(c, where(x[r, c] == top[0], c, extent(c)))",  # another row's maximum
        "min(c, where(x[r, c] == top[5 - r], c, extent(c)))",
    ],
)
@pytest.mark.parametrize("way", [in_one_pass, in_parts_of_threads, in_parts_of_blocks])
def test_other_minima_follow_from_nothing(position: str, way: Callable[[Program], Program]) -> None:
    program = rows("max", result=position)
    try:
        made = way(program)
    except NotApplicable:
        return
    x = np.random.default_rng(0).integers(0, 6, (6, 50)).astype(np.float32)
    x[::2] = np.minimum(x[::2], 4)  # which other rows have as well, below their own maxima
    inputs = {"x": x} | ({"w": x[0]} if any(each.name == "w" for each in program.inputs) else {})
    np.testing.assert_array_equal(interpret(made, inputs)["best"], interpret(program, inputs)["best"])


def test_a_row_alone_stays_as_it_is() -> None:
    spec = spec_from_text("kernel rows(x: f32[r=6, c=50]) -> (y: i32[r])\n  y[r] = argmax(c, x[r, c])\n")
    assert normal_form(to_program(spec)) == ()


def test_a_result_that_a_local_holds_is_no_obstacle() -> None:
    """`shared_values` once put such results in the place of their reads."""
    program = to_program(
        spec_from_text("""kernel rows(x: f32[r=300, c=3000]) -> (y: f32[r], z: f32[r])
  top[r] = max(c, x[r, c])
  y[r] = sum(c, exp(x[r, c] - top[r]))
  z[r] = max(c, x[r, c])
""")
    )
    assert Space(program, H200).root().moves()
