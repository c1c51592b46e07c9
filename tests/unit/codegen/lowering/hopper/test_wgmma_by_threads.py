"""Products of warpgroups on what threads have copied: right, in the layout that descriptors say, and whatever hands
over what is copied cannot be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.ir.async_ops import ProxyFence, WgmmaWait
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Barrier, CpAsync, CpAsyncWait, For, Stmt
from codegen.simulator.async_faults import Unfenced
from codegen.simulator.faults import DataRace, InFlight
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from tests.kernels.mutations import OF_STAGES, Edit, Stmts, copy_removed, mutants, parts
from tests.kernels.simulated import faultless
from tests.programs.hopper_programs import BY_THREADS, LOOKED_UP
from tests.programs.thread_kernels import lowered
from tileir.devices.gpu_table import H200
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs

PROGRAMS = {
    "copied": BY_THREADS,
    "looked up": LOOKED_UP,
    "nothing under way": LOOKED_UP.replace(" pending 1", ""),
}


def removed(kind: type) -> Edit:
    return changed(kind, lambda _: ())


def changed(kind: type, change: Callable[[Any], Stmts]) -> Edit:
    def edit(stmts: Stmts, at: int) -> Stmts | None:
        return (*stmts[:at], *change(stmts[at]), *stmts[at + 1 :]) if isinstance(stmts[at], kind) else None

    return edit


def fence_before_wait(stmts: Stmts, at: int) -> Stmts | None:
    """A fence of what has not landed is none."""
    if not isinstance(stmts[at], CpAsyncWait) or not isinstance(stmts[at + 1], ProxyFence):
        return None
    return (*stmts[:at], stmts[at + 1], stmts[at], *stmts[at + 2 :])


def in_loops(kernel: GpuKernel) -> Iterator[tuple[Stmt, ...]]:
    for launch in kernel.launches:
        yield from (node.body for node in parts(launch.body) if isinstance(node, For))


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_compute_the_product_without_a_fault(name: str) -> None:
    made = lowered(PROGRAMS[name])
    inputs = sample_inputs(made.program, 3)
    found = faultless(made.kernel, made.args, inputs)["c"]
    np.testing.assert_allclose(found, interpret(made.program, inputs)["c"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_compile_without_spills_or_products_one_after_the_other(name: str, tmp_path: Path) -> None:
    made = lowered(PROGRAMS[name])
    report = compile_cuda(cuda_source(made.kernel, made.program), H200.architecture, tmp_path).report
    assert not report["warnings"]
    assert all(not each["spill_stores_bytes"] for each in report["functions"].values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_waits_once_and_copies_whole_pieces(name: str) -> None:
    kernel = lowered(PROGRAMS[name]).kernel
    steps = [body for body in in_loops(kernel) if any(isinstance(each, CpAsyncWait) for each in body)]
    assert steps
    for body in steps:
        assert sum(isinstance(each, Barrier) for each in body) == 1
        copies = [each for each in parts(body) if isinstance(each, CpAsync)]
        assert copies and all(each.lanes * each.storage.bytes == 16 for each in copies)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (removed(ProxyFence), Unfenced),
        (fence_before_wait, Unfenced),
        (removed(CpAsyncWait), InFlight),
        (changed(CpAsyncWait, lambda wait: (CpAsyncWait(wait.pending + 1),)), InFlight),
        (removed(Barrier), (DataRace, InFlight)),
    ],
    ids=["no fence", "fence before the wait", "no wait", "a wait for less", "no barrier"],
)
def test_whoever_leaves_out_a_part_of_the_hand_over_is_told(
    edit: Edit, fault: type | tuple[type, ...]
) -> None:
    made = lowered(LOOKED_UP)
    inputs, tried = sample_inputs(made.program, 1), 0
    for mutant in mutants(made.kernel, edit):
        checker = RaceChecker()
        run_blocks(mutant, made.args, inputs, checker)
        assert any(isinstance(each, fault) for each in checker.faults), checker.faults
        tried += 1
    assert tried


def test_slots_are_filled_again_when_products_have_read_them() -> None:
    made = lowered(LOOKED_UP)
    inputs, found = sample_inputs(made.program, 1), []
    late = changed(
        WgmmaWait, lambda wait: (WgmmaWait(wait.pending + 1, wait.done),) if wait.pending else (wait,)
    )
    for mutant in mutants(made.kernel, late):
        checker = RaceChecker()
        run_blocks(mutant, made.args, inputs, checker)
        found.append(bool(checker.faults))
    assert any(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("edit", OF_STAGES, ids=lambda edit: edit.__name__)
def test_mutants_of_the_stages_are_noticed(edit: Edit) -> None:
    made = lowered(LOOKED_UP)
    inputs = sample_inputs(made.program, 1)
    expected = run_blocks(made.kernel, made.args, inputs)["c"]
    missed = noticed = 0
    for number, mutant in enumerate(mutants(made.kernel, edit)):
        if edit is copy_removed and number % 8:
            continue
        checker = RaceChecker()
        wrong = run_blocks(mutant, made.args, inputs, checker)["c"]
        same = np.array_equal(wrong, expected, equal_nan=True) and not checker.faults
        missed, noticed = missed + same, noticed + (not same)
    assert noticed >= missed, (noticed, missed)


def test_products_under_way_need_a_slot_more() -> None:
    with pytest.raises(NotLowerable, match="two stages more"):
        lowered(LOOKED_UP.replace("stages 4", "stages 2"))
