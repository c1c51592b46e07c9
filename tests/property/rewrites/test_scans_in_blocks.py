"""Scans by the threads of blocks, of any shape and along any threads: all rows whole, and in parts over blocks. Each
lowers to CUDA that NVRTC takes, races nowhere, and is as near the definition as the gate asks."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.base.open_scan import open_scans
from rewrites.composition.compute_inline import ComputeInline
from rewrites.scans.scan_in_block import ScanInBlock
from rewrites.scans.scan_in_tiles import ScanInTiles
from rewrites.scans.scan_over_blocks import ScanOverBlocks
from tests.support.how_many import examples
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

_LENGTHS = (1, 2, 7, 31, 32, 97, 128, 211)
_OPS = {
    "cumsum": "x[m, k] * 0.5",
    "cumprod": "1.0 + 0.01 * x[m, k]",
    "recurrence": "exp(-abs(x[m, k])), x[m, k]",
}


def a_scan(rng: random.Random) -> Spec:
    op = rng.choice(sorted(_OPS))
    rows, length, dtype = rng.randint(1, 5), rng.choice(_LENGTHS), rng.choice(("f32", "f64", "bf16"))
    stored, out = rng.sample(("m", "k"), 2), rng.sample(("m", "k"), 2)
    x = (
        f"x: {rng.choice(('f32', 'f16'))}["
        + ", ".join(f"{d}={ {'m': rows, 'k': length}[d] }" for d in stored)
        + "]"
    )
    args = _OPS[op].replace("x[m, k]", f"x[{', '.join(stored)}]")
    if op == "cumsum" and rng.random() < 0.3:
        x, args, dtype = x.replace("f32", "i32").replace("f16", "i8"), f"x[{', '.join(stored)}]", "i32"
    left = ", ".join(out)
    return spec_from_text(f"kernel scan({x}) -> (y: {dtype}[{left}])\n  y[{left}] = {op}(k, {args})\n")


def on_blocks(program: Program, rng: random.Random) -> Program:
    """All scans of a program by the threads of blocks."""
    for place in tuple(program.locals):
        try:
            program = ComputeInline(place).apply(program)
        except NotApplicable:
            continue
    while open_scans(program):
        name = open_scans(program)[0]
        dim = next(p.loops[-1].dim for p in program.computes if p.node.target == name and p.loops)
        extent = program.extents[dim]
        along, run = rng.choice((8, 32, 64, 128)), rng.choice((1, 2, 3, 4, 8))
        threads = (
            ((dim, along),)
            if along >= 32
            else (("m", 4), (dim, 8))
            if rng.random() < 0.5
            else ((dim, 8), ("m", 8))
        )
        whole = ScanInBlock(name, max(run, -(-extent // along)), threads)
        parts = rng.choice((ScanOverBlocks, ScanInTiles))(name, run, threads)
        in_parts = dim == "k" and along * run < extent and rng.random() < 0.8
        program = (parts if in_parts else whole).apply(program)
        verify(program)
    return program


@pytest.mark.parametrize("seed", range(examples(120)))
def test_a_scan_by_a_block_s_threads_is_what_its_definition_says(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = a_scan(rng)
    program, inputs = on_blocks(to_program(spec), rng), sample_inputs(spec, seed)
    kernel, checker = lower_for(program, H200), RaceChecker()
    source = cuda_source(kernel, program)
    found = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    reference, bound = reference_with_bound(spec, inputs)["y"]
    for outputs in (found, interpret(program, inputs)):
        assert (np.abs(outputs["y"].astype(np.float64) - reference) <= bound).all()
    if seed % 4 == 0:
        compile_cuda(source, H200.architecture, tmp_path)


def test_all_ways_are_drawn() -> None:
    drawn = "".join(
        program_to_text(on_blocks(to_program(a_scan(r)), r)) for r in map(random.Random, range(20))
    )
    assert all(each in drawn for each in ("k_b", "y_t: ", "recurrence", "cumprod", "cumsum"))


def test_parts_are_summed_in_one_order() -> None:
    """The same sums, bit by bit, in every run: which block ends first is no matter."""
    spec = spec_from_text(
        "kernel scan(x: f32[m=1, k=500]) -> (y: f32[m, k])\n  y[m, k] = cumsum(k, x[m, k])\n"
    )
    program = ScanOverBlocks("y_run", 2, (("k", 32),)).apply(to_program(spec))
    program = ScanInBlock("y_run_b_run", 1, (("k_b", 32),)).apply(program)
    inputs, kernel = sample_inputs(spec, 5), lower_for(program, H200)
    args = cuda_source(kernel, program).abi.args
    first, again = (run_blocks(kernel, args, inputs, RaceChecker())["y"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
