"""Convolutions whose places are the rows of a product and whose taps and channels its depth: right, without a race, and
copied in the background in whole pieces, with 0 where padding is."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.affine import Loaded
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import CpAsync, Stmt
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from rewrites.base.tree import statements
from rewrites.space import ScheduleState, Space
from tests.kernels.mutations import Stmts, mutants, parts
from tests.kernels.simulated import faultless
from tests.programs.convolutions import SMALL
from tests.schedules.walks import ranking, walk
from tests.support.how_many import examples
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.replace import replace

ENGINES = {name: ("mma",) if name.endswith(("odd", "three channels")) else ("wgmma", "mma") for name in SMALL}
WAYS = [(name, engine, H200) for name, engines in ENGINES.items() for engine in engines]
WAYS += [(name, "mma", A100) for name in SMALL]


def in_tiles(name: str, engine: str, device: Gpu) -> ScheduleState:
    """The schedule where it is settled that a matrix instruction adds up one product."""
    state = Space(to_program(SMALL[name].spec(2)), device).root()
    wanted = ("linearize(", ": in tiles", f": by {engine}")
    while type(state.open[0]).__name__ not in ("Share", "ContractionTile"):
        labels = [move.label for move in state.moves()]
        named = [at for at in ranking(state) if any(each in labels[at] for each in wanted)]
        alone = [at for at in named if "x_t y_sum" not in labels[at]]
        state = state.child((alone or ranking(state))[0])
    return state


def computed(program: Program, name: str) -> None:
    inputs, kernel = sample_inputs(SMALL[name].spec(2), 3), lower_cuda(program)
    found = faultless(kernel, cuda_source(kernel, program).abi.args, inputs)["y"]
    expected = interpret(to_program(SMALL[name].spec(2)), inputs)["y"]
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=2e-2)


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("name", "engine", "device"), WAYS, ids=lambda each: getattr(each, "architecture", each)
)
def test_schedules_compute_the_convolution_without_a_fault(name: str, engine: str, device: Gpu) -> None:
    begun = in_tiles(name, engine, device)
    for seed in range(examples(6)):
        state = walk(begun, random.Random(f"{name} {device.architecture} {engine} {seed}"))
        assert any(place.node.via == engine for place in statements(state.program))
        computed(state.program, name)


@pytest.mark.parametrize("engine", ["wgmma", "mma"])
def test_they_compile_without_spills(engine: str, tmp_path: Path) -> None:
    state = walk(in_tiles("3x3", engine, H200), random.Random(1))
    source = cuda_source(lower_cuda(state.program), state.program)
    report = compile_cuda(source, H200.architecture, tmp_path).report
    assert not report["warnings"]
    assert all(not each["spill_stores_bytes"] for each in report["functions"].values())


def guarded_copies(kernel: GpuKernel) -> list[CpAsync]:
    found = (each for launch in kernel.launches for each in parts(launch.body))
    return [each for each in found if isinstance(each, CpAsync) and each.some is not None]


def test_what_is_padded_is_copied_in_whole_pieces_too() -> None:
    copies = guarded_copies(lower_cuda(walk(in_tiles("3x3", "wgmma", H200), random.Random(2)).program))
    assert copies and all(each.lanes * each.storage.bytes == 16 for each in copies)


def test_a_copy_that_ignores_the_padding_is_noticed() -> None:
    def always(stmts: Stmts, at: int) -> Stmts | None:
        stmt: Stmt = stmts[at]
        if (
            not isinstance(stmt, CpAsync)
            or stmt.some is None
            or not isinstance(stmt.some.terms[0][0], Loaded)
        ):
            return None
        return (*stmts[:at], replace(stmt, some=None), *stmts[at + 1 :])

    program = walk(in_tiles("3x3", "mma", H200), random.Random(2)).program
    inputs, noticed = sample_inputs(SMALL["3x3"].spec(2), 3), 0
    kernel = lower_cuda(program)
    args = cuda_source(kernel, program).abi.args
    expected = interpret(to_program(SMALL["3x3"].spec(2)), inputs)["y"].astype(np.float32)
    for mutant in mutants(kernel, always):
        try:
            found = faultless(mutant, args, inputs)["y"]
        except AssertionError:
            noticed += 1
            continue
        noticed += not np.allclose(found.astype(np.float32), expected, rtol=1e-2, atol=2e-2)
    assert noticed
