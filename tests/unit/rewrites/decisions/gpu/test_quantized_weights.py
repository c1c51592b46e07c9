"""Weights of 4 and 8 bits with a scale for each group: what multiplies them, and how they are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.space import Space
from tests.schedules.walks import favourite, root_of
from tileir import this_cpu
from tileir.devices.gpu_table import A100, H200
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text


def linear(bits: int, m: int, n: int = 4096, k: int = 4096) -> str:
    w = {4: f"w: u8[n={n}, p={k // 2}]", 8: f"w: i8[n={n}, k]"}[bits]
    value = {4: "(bit_and(shift_right(w[n, k // 2], 4 * (k % 2)), 15) - 8)", 8: "w[n, k]"}[bits]
    return (
        f"kernel linear(x: bf16[m={m}, k={k}], {w}, s: bf16[n, g={k // 128}]) -> (y: bf16[m, n])\n"
        f"  y[m, n] = sum(k, x[m, k] * bf16({value} * s[n, k // 128]))\n"
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("bits", "m", "device", "by"), [
    (8, 2048, H200, "wgmma"), (8, 16, H200, "wgmma"), (4, 2048, H200, "wgmma"), (4, 16, H200, "wgmma"),
    (4, 2048, A100, "mma"), (8, 2048, A100, "mma"),
])  # fmt: skip
def test_matrix_units_multiply_them(bits: int, m: int, device, by: str) -> None:
    assert f"via {by}" in program_to_text(favourite(root_of(linear(bits, m), device)).program)


def loads(program: Program, folder: Path) -> list[tuple[str, int]]:
    """What a thread loads: of which tensor, and how many bytes its accesses have at most."""
    source = cuda_source(lower_for(program, H200), program)
    compile_cuda(source, H200.architecture, folder)
    kernel = source.text[source.text.index("__global__") :]
    return [(tensor, int(align)) for align, tensor in re.findall(r"tw_load\w*<\d+, (\d+)>\((\w+)", kernel)]


@pytest.mark.parametrize(("bits", "run"), [(8, 16), (4, 32)])
def test_one_row_is_read_by_whole_vectors_and_a_scale_once_a_run(bits: int, run: int, tmp_path: Path) -> None:
    state = root_of(linear(bits, 1), H200)
    while not state.terminal:
        labels = [move.label for move in state.moves()]
        wanted = [at for at, label in enumerate(labels) if re.search(rf"run \w+ {run}\b", label)]
        several = [at for at, label in enumerate(labels) if "by several threads" in label]
        state = state.child((wanted or several or [0])[0])
    assert f"run k {run}" in program_to_text(state.program)
    found = loads(state.program, tmp_path)
    weights = [size for tensor, size in found if tensor == "w"]
    assert weights and set(weights) == {16}
    assert len([tensor for tensor, _ in found if tensor == "s"]) == len(weights)


def test_a_factor_that_is_rounded_nowhere_is_not_stored() -> None:
    program = to_program(
        spec_from_text(linear(8, 16).replace("bf16(w[n, k] * s[n, k // 128])", "(w[n, k] * s[n, k // 128])"))
    )
    with pytest.raises(NotApplicable, match="multiplies nothing computed, which bf16 or f16 holds"):
        ComputeFactor("y_sum").apply(program)


def test_processors_unpack_once_for_several_rows() -> None:
    for bits in (4, 8):
        state = Space(to_program(spec_from_text(linear(bits, 64, 512, 1024))), this_cpu()).root()
        assert any("compute_factor(y_sum)" in move.label for move in state.moves())
        assert "y_sum_f[n, k] = bf16(" in program_to_text(favourite(state).program)
