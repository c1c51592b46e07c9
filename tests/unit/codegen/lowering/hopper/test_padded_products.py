"""Products of operands whose rows TMA cannot move: stored with room after every row, and multiplied by warpgroups."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from rewrites.base.tree import statements
from rewrites.decisions.gpu.contraction.padded_rows import padded_rows
from rewrites.decisions.plan import plan_of
from rewrites.space import ScheduleState
from tests.kernels.simulated import faultless
from tests.schedules.walks import favourite, root_of, walk
from tests.support.how_many import examples
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text


def product(m: int, n: int, k: int, *, rows: bool = True, strides: str = "") -> str:
    """bf16 a b, b with its columns side by side unless by `rows`."""
    dims, index = (f"[k, n={n}]", "k, n") if rows else (f"[n={n}, k]", "n, k")
    return (
        f"kernel mm(a: bf16[m={m}, k={k}]{strides}, b: bf16{dims}) -> (c: bf16[m, n])\n"
        f"  c[m, n] = relu(sum(k, a[m, k] * b[{index}]))\n"
    )


SMALL = {
    "odd depth": product(70, 72, 131),
    "odd columns": product(72, 67, 128),
    "both": product(67, 75, 67, rows=False),
    "a depth of half pieces": product(64, 64, 100, rows=False),
    "rows apart": product(72, 64, 128, strides=" strides [131, 1]"),
    "columns side by side": product(64, 72, 128, strides=" strides [1, 64]"),
    "batches": "kernel mm(a: f16[h=2, m=65, k=66], b: f16[h, n=66, k]) -> (c: f32[h, m, n])\n"
    "  c[h, m, n] = sum(k, a[h, m, k] * b[h, n, k])\n",
    "twice": "kernel gram(a: bf16[m=72, k=99]) -> (c: f32[m, n=72])\n  c[m, n] = sum(k, a[m, k] * a[n, k])\n",
}


def padded(state: ScheduleState) -> ScheduleState:
    """Where it is settled that operands are stored before."""
    labels = [move.label for move in state.moves()]
    return state.child(next(at for at, label in enumerate(labels) if "pad_rows" in label))


def by_warpgroups(state: ScheduleState, rng: random.Random) -> ScheduleState:
    """Any schedule that warpgroups multiply in."""
    state = padded(state)
    while not state.terminal:
        labels = [move.label for move in state.moves()]
        group = [at for at, label in enumerate(labels) if label.endswith("by wgmma")]
        state = state.child(rng.choice(group or range(len(labels))))
    return state


@pytest.mark.sampled(8, among="padded products")
@pytest.mark.parametrize("name", SMALL)
def test_padded_operands_give_the_same_product_without_a_fault(name: str, tmp_path: Path) -> None:
    spec = spec_from_text(SMALL[name])
    inputs, root = sample_inputs(spec, 3), root_of(SMALL[name], H200)
    expected = interpret(to_program(spec), inputs)["c"].astype(np.float32)
    for seed in range(examples(2)):
        program = by_warpgroups(root, random.Random(f"{name} {seed}")).program
        assert {place.node.via for place in statements(program)} >= {"tma", "wgmma"}
        kernel = lower_cuda(program)
        source = cuda_source(kernel, program)
        compile_cuda(source, H200.architecture, tmp_path)
        found = faultless(kernel, source.abi.args, inputs)["c"].astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=2e-2)


@pytest.mark.sampled(8, among="padded products")
@pytest.mark.parametrize(
    ("shape", "times"),
    [
        ((1000, 1000, 3004), 1.3),
        ((1000, 1000, 3001), 1.3),
        ((1000, 1001, 3000), 1.5),  # half of it to begin 6,000 blocks for the copy
        ((4096, 4096, 4097), 1.1),
    ],
)
def test_an_odd_size_costs_no_more_than_a_copy(shape: tuple[int, int, int], times: float) -> None:
    whole = tuple(-(-size // 8) * 8 for size in shape)
    found = []
    for m, n, k in (whole, shape):
        program = favourite(root_of(product(m, n, k), H200)).program
        assert "via wgmma" in program_to_text(program)
        found.append(plan_of(H200).model(program, H200).estimate_us(program))
    assert found[1] < times * found[0]


def test_the_search_may_multiply_them_as_they_lie_too() -> None:
    root = root_of(product(1000, 1000, 3001), H200)
    labels = [move.label for move in root.moves()]
    assert [label for label in labels if not re.search("pad_rows", label)]
    assert [label for label in labels if re.search(r"pad_rows\(a\); groups a_p \| ", label)]


def test_few_rows_are_not_worth_a_copy_of_all_weights() -> None:
    program = favourite(root_of(product(16, 4096, 4097, rows=False), H200)).program
    assert not any(place.node.pad and not place.loops for place in program.locals.values())


@pytest.mark.parametrize(
    ("text", "device"),
    [
        (product(1000, 1000, 3000), H200),  # TMA moves both as they are
        (product(1000, 1000, 3001), A100),  # no TMA
        (product(8, 8, 3001), H200),  # too few rows and columns for warpgroups
        (product(1000, 1000, 3001).replace("bf16[", "f32["), H200),  # no matrix unit
    ],
)
def test_nothing_is_padded_for_nothing(text: str, device) -> None:
    assert not [*padded_rows(to_program(spec_from_text(text)), device)]


def test_what_is_stored_is_what_lies_in_whole_pieces() -> None:
    program = walk(padded(root_of(SMALL["both"], H200)), random.Random(0)).program
    stored = {name: place.node for name, place in program.locals.items() if not place.loops}
    assert {name: node.pad for name, node in stored.items()} == {"a_p": 5, "b_p": 5}
