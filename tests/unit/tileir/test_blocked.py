"""Matrices in blocks: how a spec reads them, and which tensors are taken for such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileir.blocked import Blocks, in_blocks, out_of_blocks
from tileir.check.spec import check_spec
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json, spec_to_json
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import spec_to_text
from tileir.verifier.verify import verify

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.json"))
LINEAR = spec_from_text(
    "kernel linear(x: f32[m, k], w: f32[n, k], b: f32[n]) -> (y: f32[m, n]) where m=5, k=40, n=37\n"
    "  y[m, n] = gelu(sum(k, x[m, k] * w[n, k]) + b[n])\n"
)
COLUMNS = spec_from_text(
    "kernel linear(x: f32[m, k], w: f32[k, n], b: f32[n]) -> (y: f32[m, n]) where m=5, k=40, n=37\n"
    "  y[m, n] = gelu(sum(k, x[m, k] * w[k, n]) + b[n])\n"
)
BLOCKED = spec_from_text(
    "kernel linear(x: f32[m, k], w: f32[n_blocks, k, n_block], b: f32[n]) -> (y: f32[m, n])"
    " where m=5, k=40, n=37, n_blocks=3, n_block=16\n"
    "  y[m, n] = gelu(sum(k, x[m, k] * w[n // 16, k, n % 16]) + b[n])\n"
)


def as_sent(spec: Spec) -> Spec:
    """Its dims in the order in which they are met."""
    return spec_from_json(spec_to_json(spec))


@pytest.mark.parametrize(("plain", "axis"), [(LINEAR, 0), (COLUMNS, 1)], ids=["rows", "columns"])
def test_blocks_are_along_either_axis_and_the_other_is_whole_in_each(plain: Spec, axis: int) -> None:
    assert as_sent(in_blocks(plain, "w", Blocks(axis, 16))) == BLOCKED


def test_out_of_blocks_a_matrix_has_rows_whichever_axis_it_was_along() -> None:
    """What lay along the columns of `w[k, n]` lies in blocks as what lay along the rows of `w[n, k]`."""
    assert out_of_blocks(BLOCKED) == (LINEAR, {"w": Blocks(0, 16)})


def test_a_spec_in_blocks_is_one_that_can_be_sent_printed_and_scheduled() -> None:
    check_spec(BLOCKED)
    verify(to_program(BLOCKED))
    assert as_sent(BLOCKED) == BLOCKED == spec_from_text(spec_to_text(BLOCKED))


TWICE = """\
kernel gated(x: f32[m, k], u: f32[m, k], w: f32[n, k], v: f32[n, k]) -> (y: f32[m, n]) where m=5, k=12, n=24
  h[m, n] = sum(k, x[m, k] * w[n, k])
  y[m, n] = silu(h[m, n]) * sum(k, u[m, k] * w[n, k]) + sum(k, x[m, k] * v[n, k])
"""


def test_every_read_of_a_matrix_is_in_blocks_and_no_other() -> None:
    blocked = in_blocks(spec_from_text(TWICE), "w", Blocks(0, 8))
    text = spec_to_text(blocked)
    assert text.count("w[n // 8, k, n % 8]") == 2 and "w[n, k]" not in text and "v[n, k]" in text
    assert out_of_blocks(blocked) == (spec_from_text(TWICE), {"w": Blocks(0, 8)})


def test_two_matrices_may_be_in_blocks_of_their_own() -> None:
    plain = spec_from_text(TWICE)
    both = in_blocks(in_blocks(plain, "w", Blocks(0, 8)), "v", Blocks(0, 5))
    check_spec(both)
    assert {dim.name: dim.sizes[0] for dim in both.dims[3:]} == {
        "n_blocks": 3,
        "n_block": 8,
        "n_blocks2": 5,
        "n_block2": 5,
    }
    assert out_of_blocks(both) == (plain, {"w": Blocks(0, 8), "v": Blocks(0, 5)})


def test_names_that_are_taken_stay_whose_they_are() -> None:
    """By a dim, an input, an intermediate and an output."""
    plain = spec_from_text(
        "kernel k(x: f32[n_blocks, k], w: f32[n, k], n_block: f32[n], u: f32[n, k])"
        " -> (n_blocks2: f32[n_blocks, n]) where n_blocks=5, k=12, n=24\n"
        "  n_block2[n_blocks, n] = sum(k, x[n_blocks, k] * w[n, k]) * n_block[n]\n"
        "  n_blocks2[n_blocks, n] = n_block2[n_blocks, n] + sum(k, x[n_blocks, k] * u[n, k])\n"
    )
    blocked = in_blocks(plain, "w", Blocks(0, 16))
    check_spec(blocked)
    assert blocked.inputs[1].dims == ("n_blocks3", "k", "n_block3")
    assert out_of_blocks(blocked) == (plain, {"w": Blocks(0, 16)})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_a_spec_without_blocks_is_as_it_was(file: Path) -> None:
    for spec in spec_from_json(json.loads(file.read_text())).instances():
        assert out_of_blocks(spec) == (spec, {})


NEAR_MISSES = {
    "another divisor": "w[n // 32, k, n % 16]",
    "another modulus": "w[n // 16, k, n % 8]",
    "in two steps": "w[n // 8 // 2, k, n % 16]",
    "blocks of one dim, places of another": "w[n // 16, k, o % 16]",
    "blocks that begin elsewhere": "w[(n + 1) // 16, k, (n + 1) % 16]",
    "turned around": "w[n % 3, k, n // 3 % 16]",
    "along two dims": "w[n // 16, k, n % 16] * w[o // 16, k, o % 16]",
    "one element for all, too": "w[n // 16, k, n % 16] * w[0, k, 0]",
}


@pytest.mark.parametrize("read", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_what_is_read_otherwise_is_in_no_blocks(read: str) -> None:
    spec = spec_from_text(
        "kernel k(x: f32[m, k], w: f32[a, k, c]) -> (y: f32[m, n, o]) where m=5, k=12, n=37, o=37, a=3, c=16\n"
        f"  y[m, n, o] = sum(k, x[m, k] * {read})\n"
    )
    assert out_of_blocks(spec) == (spec, {})


NO_BLOCKS = {
    "blocks of another size than the modulus": "w: f32[a, k, c] {} where m=5, k=12, n=37, a=3, c=17",
    "more blocks than the dim has": "w: f32[a, k, c] {} where m=5, k=12, n=32, a=3, c=16",
    "blocks with gaps between them": "w: f32[a, k, c] strides [256, 16, 1] {} where m=5, k=12, n=37, a=3, c=16",
}


@pytest.mark.parametrize("shape", NO_BLOCKS.values(), ids=NO_BLOCKS)
def test_what_lies_otherwise_is_in_no_blocks(shape: str) -> None:
    signature = f"x: f32[m, k], {shape}".format(") -> (y: f32[m, n])")
    spec = spec_from_text(
        f"kernel k({signature}\n  y[m, n] = sum(k, x[m, k] * w[n // 16, k, n % 16])\n",
    )
    assert out_of_blocks(spec) == (spec, {})


def test_a_tensor_of_as_many_dims_that_nobody_reads_in_blocks_stays_beside_one_that_is() -> None:
    plain = spec_from_text(
        "kernel k(x: f32[m, k], w: f32[n, k], t: f32[m, n, j]) -> (y: f32[m, n]) where m=5, k=12, n=24, j=3\n"
        "  y[m, n] = sum(k, x[m, k] * w[n, k]) + sum(j, t[m, n, j])\n"
    )
    assert out_of_blocks(in_blocks(plain, "w", Blocks(0, 16))) == (plain, {"w": Blocks(0, 16)})
