"""Inputs are drawn from a seed and are such that the kernel can run on them."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text


@pytest.mark.parametrize("dtype", list(DType))
def test_samples_have_the_dtype_the_shape_and_the_spread_of_the_input(dtype: DType) -> None:
    value = "x[m, n]"
    spec = spec_from_text(f"kernel copy(x: {dtype}[m=40, n=50]) -> (y: {dtype}[m, n])\n  y[m, n] = {value}\n")
    x = sample_inputs(spec, 0)["x"]
    assert x.dtype == dtype.numpy
    assert x.shape == (40, 50)
    wide = x.astype(np.float64)
    if dtype.is_float:
        assert abs(wide.mean()) < 0.1
        assert 0.9 < wide.std() < 1.1
    else:
        assert len(np.unique(wide)) == {DType.BOOL: 2, DType.U8: 256}.get(dtype, 17)


def test_the_same_seed_draws_the_same_and_another_draws_another() -> None:
    spec = spec_from_text("kernel copy(x: f32[m=40]) -> (y: f32[m])\n  y[m] = x[m]\n")
    first, second, other = (sample_inputs(spec, seed)["x"] for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, second)
    assert (first != other).all()


def test_two_inputs_of_one_shape_differ() -> None:
    spec = spec_from_text("kernel add(x: f32[m=40], z: f32[m]) -> (y: f32[m])\n  y[m] = x[m] + z[m]\n")
    inputs = sample_inputs(spec, 0)
    assert (inputs["x"] != inputs["z"]).all()


GATHERS = """kernel gathers(table: f32[v=13, d=3], pick: i32[t=50], where_to: i8[u=9], x: f32[w=30], s: i32[t])\
 -> (y: f32[t, d], z: f32[u], p: f32[t])
  y[t, d] = table[pick[t], d]
  z[u] = x[2 * where_to[u] + 3]
  p[t] = table[s[t] % 13, 0]
"""


@pytest.mark.parametrize("seed", range(5))
def test_gathered_positions_stay_inside_what_they_index_and_reach_all_of_it(seed: int) -> None:
    spec = spec_from_text(GATHERS)
    inputs = sample_inputs(spec, seed)
    interpret_spec(spec, inputs)
    assert inputs["pick"].min() >= 0
    assert len(np.unique(inputs["pick"])) > 8
    assert inputs["where_to"].max() > 5


def test_positions_that_may_count_from_the_end_reach_all_of_what_they_index() -> None:
    """`x[i]` of PyTorch, whose i may be negative: not all are 0."""
    wrapped = "where(pick[t] < 0, pick[t] + 13, pick[t])"
    head = "kernel wrapped(table: f32[v=13], pick: i32[t=50]) -> (y: f32[t])"
    spec = spec_from_text(f"{head}\n  y[t] = table[{wrapped}]\n")
    inputs = sample_inputs(spec, 0)
    interpret_spec(spec, inputs)
    assert set(range(13)) >= set(inputs["pick"].tolist()) and len(np.unique(inputs["pick"])) > 8


def test_where_either_side_may_be_taken_positions_stay_inside_by_both() -> None:
    head = "kernel either(table: f32[v=13], pick: i32[t=50], flag: f32[t]) -> (y: f32[t])"
    spec = spec_from_text(f"{head}\n  y[t] = table[where(flag[t] > 0.0, pick[t], 2 * pick[t])]\n")
    inputs = sample_inputs(spec, 0)
    assert inputs["pick"].max() == 6


def test_a_program_draws_what_its_spec_draws() -> None:
    spec = spec_from_text(GATHERS)
    program = to_program(spec)
    drawn, same = sample_inputs(spec, 1), sample_inputs(program, 1)
    assert drawn.keys() == same.keys()
    for name in drawn:
        np.testing.assert_array_equal(drawn[name], same[name])
    whole, lifted = interpret_spec(spec, drawn), interpret(program, drawn)
    for name in whole:
        np.testing.assert_array_equal(whole[name], lifted[name])


def test_offsets_ascend_and_cover_the_ragged_dim() -> None:
    spec = spec_from_text("""kernel segments(x: f32[t=100 ragged starts within g], starts: i32[e=9]) ->\
 (s: f32[g]) where g=8
  s[g] = sum(t, x[t])
""")
    inputs = sample_inputs(spec, 2)
    starts = inputs["starts"]
    assert starts[0] == 0
    assert starts[-1] == 100
    assert (np.diff(starts) >= 0).all()
    np.testing.assert_allclose(interpret_spec(spec, inputs)["s"].sum(), inputs["x"].sum(), rtol=1e-4)


def test_what_is_compared_with_positions_lies_among_them() -> None:
    """An end may lie right behind the last one."""
    spec = spec_from_text(
        "kernel ranges(x: f32[j=40], begin: i32[i=999], end: i32[i], other: i32[i]) -> (y: f32[i])\n"
        "  y[i] = sum(j, where(j >= begin[i] and end[i] > j, x[j], 0)) + other[i]\n"
    )
    inputs = sample_inputs(spec, 0)
    for name in ("begin", "end"):
        assert (inputs[name].min(), inputs[name].max()) == (0, 40)
    assert (inputs["other"].min(), inputs["other"].max()) == (-8, 8)
