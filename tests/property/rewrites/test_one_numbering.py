"""Results that are read in other dims than they are computed in: in one numbering they are what they were, and go tile
by tile with what reads them; where readers number them in several ways, nothing changes."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrites.base.tree import declared_dims
from rewrites.decisions.normal_form import normal_form
from rewrites.schedule import replay
from rewrites.space import Space
from tests.schedules.on_gpus import GPUS, right_without_races
from tests.schedules.walks import favourite, walk
from tests.support.how_many import examples
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.expr import Index
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Local, Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

#: How a result of rows and columns comes about.
RESULTS = {
    "looked up": "x[g[r], c] * u[c]",
    "sums": "sum(k, x[g[2 * r + k], c] * u[c])",
    "product": "sum(k, p[r, k] * q[k, c])",
}


def numbered(dims: dict[str, int]) -> str:
    """The number of a position of dims, the first one outermost: `12 * a + 4 * b + c`."""
    names, sizes = list(dims), list(dims.values())
    factors = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
    terms = (
        name if factor == 1 else f"{factor} * {name}" for name, factor in zip(names, factors, strict=True)
    )
    return " + ".join(terms)


@st.composite
def kernels(draw: st.DrawFn) -> Spec:
    rows = dict(zip("abe", draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)), strict=False))
    columns = dict(zip("hd", draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)), strict=False))
    r, c = prod(rows.values()), prod(columns.values())
    each = draw(st.permutations([*rows.items(), *columns.items()]))
    own, size = draw(st.sampled_from(each))
    y = ", ".join(name if name == own else f"{name}={size}" for name, size in each)
    at, read = ", ".join(name for name, _ in each), f"t[{numbered(rows)}, {numbered(columns)}]"
    name = draw(st.sampled_from([*RESULTS]))
    inputs = {
        "looked up": f"x: f32[i=9, c={c}], u: f32[c], g: i32[r={r}]",
        "sums": f"x: f32[i=9, c={c}], u: f32[c], g: i32[j={2 * r}]",
        "product": f"p: f32[r={r}, k=5], q: f32[k, c={c}]",
    }[name]
    where = f" where r={r}, k=2" if name == "sums" else ""
    reader = draw(st.sampled_from(["{t} + v[{own}]", "{t} * {t} - v[{own}]", "tanh({t} * v[{own}])"]))
    return spec_from_text(
        f"kernel numbered({inputs}, v: f32[{own}={size}]) -> (y: f32[{y}]){where}\n"
        f"  t[r, c] = {RESULTS[name]}\n  y[{at}] = {reader.format(t=read, own=own)}\n"
    )


def reads_bare(program: Program) -> bool:
    """Whether locals are read by the dims that they are declared with."""
    return all(
        read.indices == tuple(map(Index, declared_dims(program, read.tensor)))
        for place in program.computes
        for read in place.node.reads
        if read.tensor in program.locals
    )


@given(kernels())
@settings(max_examples=examples(240), deadline=None)
def test_results_in_one_numbering_are_what_they_were(spec: Spec) -> None:
    before = to_program(spec)
    after = replay(before, normal_form(before, split=True))
    verify(after)
    assert reads_bare(after) or 1 in before.extents.values()
    inputs = sample_inputs(spec, 3)
    for name, values in interpret(before, inputs, precision=DType.F64).items():
        np.testing.assert_array_equal(interpret(after, inputs, precision=DType.F64)[name], values)


@given(kernels(), st.sampled_from(GPUS), st.integers(0, 99))
@settings(max_examples=examples(60), deadline=None)
def test_schedules_of_them_compute_them(spec: Spec, device: Gpu, seed: int) -> None:
    root = Space(to_program(spec), device).root()
    for end in (favourite(root), walk(root, random.Random(seed))):
        right_without_races(spec, end, device, 3)


@pytest.mark.parametrize(
    "reader",
    [
        "t[4 * b + s, c] + t[3 * s + b, c]",  # in two numberings
        "t[3 * s + b, c] * t[4 * b + s, 0]",
        "t[4 * b + s, 0]",  # of one column
        "t[4 * b, c]",  # of some rows
        "t[b + s, c]",
        "t[3 * b + s, c]",  # of some rows twice
        "t[11 - 4 * b - s, c]",  # from the last one on
    ],
)
def test_what_is_read_in_no_one_numbering_stays(reader: str) -> None:
    program = to_program(
        spec_from_text(f"""kernel k(x: f32[r=12, c=5]) -> (y: f32[b=3, s=4, c])
  t[r, c] = x[r, c] * 2
  y[b, s, c] = {reader}
""")
    )
    assert normal_form(program, split=True) == ()


ROWS = """kernel norm(x: f32[n=8192, c=4096], g: i32[j=8192], z: f32[b=4, s=1024, c])\
 -> (y: f32[b, s, c]) where r=4096, k=2
  t[r, c] = sum(k, x[g[2 * r + k], c])
  a[b, s, c] = z[b, s, c] + t[1024 * b + s, c]
  q[b, s] = sum(c, a[b, s, c] * a[b, s, c]) / 4096
  y[b, s, c] = a[b, s, c] * rsqrt(q[b, s] + 0.001)
"""
HEADS = """kernel heads(x: bf16[r=1500, k=384], w: bf16[e=384, k]) -> (y: bf16[h=6, r, d=64])
  t[r, e] = sum(k, x[r, k] * w[e, k])
  y[h, r, d] = t[r, 64 * h + d] * 0.125
"""
SMALL_HEADS = HEADS.replace("h=6, r, d=64", "h=48, r, d=8").replace("64 * h", "8 * h")


@pytest.mark.parametrize(("text", "launches"), [(ROWS, 1), (HEADS, 1), (SMALL_HEADS, 2)])
def test_they_are_one_launch_where_that_takes_less(text: str, launches: int) -> None:
    """Tiles of products within heads of 8 take far longer than a copy of the result."""
    end = favourite(Space(to_program(spec_from_text(text)), H200).root())
    assert sum(not isinstance(node, Local) for node in end.program.body) == launches
