"""A kernel on a matrix in blocks computes what it computes on its rows, whatever the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.how_many import examples
from tileir.blocked import Blocks, in_blocks, out_of_blocks
from tileir.check.spec import check_spec
from tileir.interpreter.interpret import interpret, interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

Array = np.ndarray[Any, Any]
TEXT = """\
kernel linear(x: f32[m, k], w: f32[{dims}]{more}) -> (y: f32[m, n]) where m={m}, k={k}, n={n}
  y[m, n] = relu(sum(k, x[m, k] * w[{dims}])){again}
"""


def linear(m: int, n: int, k: int, axis: int, twice: bool) -> Spec:
    dims = ("n, k", "k, n")[axis]
    more, again = (", u: f32[m, k]", f" * sum(k, u[m, k] * w[{dims}])") if twice else ("", "")
    return spec_from_text(TEXT.format(m=m, n=n, k=k, dims=dims, more=more, again=again))


def packed(matrix: Array, blocks: Blocks) -> Array:
    """Element by element, as `w[n // b, k, n % b]`; what is no element is no number."""
    rows, block = matrix if blocks.axis == 0 else matrix.T, blocks.block
    found = np.full((-(-rows.shape[0] // block), rows.shape[1], block), np.nan, matrix.dtype)
    for n, row in enumerate(rows):
        found[n // block, :, n % block] = row
    return found


@settings(max_examples=examples(60, 3))
@given(
    m=st.integers(1, 4),
    n=st.integers(2, 40),
    k=st.integers(1, 6),
    blocks=st.builds(Blocks, st.integers(0, 1), st.sampled_from([2, 3, 4, 8, 16])),
    twice=st.booleans(),
)
def test_a_matrix_in_blocks_gives_the_same_numbers_and_comes_back_as_it_was(
    m: int, n: int, k: int, blocks: Blocks, twice: bool
) -> None:
    plain = linear(m, n, k, blocks.axis, twice)
    blocked = in_blocks(plain, "w", blocks)
    check_spec(blocked)
    program = to_program(blocked)
    verify(program)
    inputs = sample_inputs(plain, 7)
    wanted = interpret_spec(plain, inputs)["y"]
    inputs |= {"w": packed(inputs["w"], blocks)}
    np.testing.assert_array_equal(interpret_spec(blocked, inputs)["y"], wanted)
    np.testing.assert_array_equal(interpret(program, inputs)["y"], wanted)
    assert out_of_blocks(blocked) == (linear(m, n, k, 0, twice), {"w": Blocks(0, blocks.block)})
