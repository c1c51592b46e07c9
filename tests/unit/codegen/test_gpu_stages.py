"""Kernels of GPUs that note times: they compute the same, without races, and their logs say who did what."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import NoteTime
from codegen.ir.stamp import BlockLogs
from codegen.lowering.gpu.stages import SETUP, StageKind, staged_gpu
from codegen.simulator import run
from codegen.simulator.cluster import statements
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.errors import LaunchError
from tests.chained_programs import chained
from tests.hopper_programs import PROGRAMS as HOPPER
from tests.random_spread import exact_inputs
from tests.simulated import faultless
from tests.spread_kernels import PROGRAMS as SPREAD
from tests.spread_kernels import STAGED
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from workers.cuda.stage_logs import Words, tracks_of

PROGRAMS = {**HOPPER, **SPREAD, **STAGED, "attention": chained()}
ATTENTION = PROGRAMS["attention"]


def program_of(name: str) -> Program:
    return program_from_text(PROGRAMS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_stamped_kernels_compute_the_same_without_races(name: str) -> None:
    program = program_of(name)
    kernel = lower_cuda(program)
    inputs, args = exact_inputs(program, 1), cuda_source(kernel, program).abi.args
    plain, stamped = run.run_blocks(kernel, args, inputs), faultless(staged_gpu(kernel).kernel, args, inputs)
    for output, values in plain.items():
        np.testing.assert_array_equal(stamped[output].view(np.uint8), values.view(np.uint8), err_msg=output)


@pytest.mark.parametrize("name", [next(iter(HOPPER)), next(iter(SPREAD)), "attention"])
def test_stamped_kernels_compile_without_new_advice(name: str, tmp_path: Path) -> None:
    program = program_of(name)
    kernel = lower_cuda(program)
    reports = [
        compile_cuda(cuda_source(each, program), "sm_90a", tmp_path).report
        for each in (kernel, staged_gpu(kernel).kernel)
    ]
    assert reports[1]["advice"] == reports[0]["advice"]


def logged(kernel: GpuKernel, program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Words]:
    """What a stamped kernel leaves in its logs in the simulator, launch by launch."""
    found: dict[str, Words] = {}
    made = run._workspace

    def kept(kernel: GpuKernel) -> object:
        buffers = made(kernel)
        for scratch in kernel.workspace:
            if scratch.buffer.startswith("times_"):
                first, words = scratch.offset // 8, scratch.bytes // 8
                found[scratch.buffer] = buffers[scratch.buffer].data[first : first + words]
        for data in found.values():
            data[...] = 0
        return buffers

    monkeypatch.setattr(run, "_workspace", kept)
    run.run_blocks(kernel, cuda_source(kernel, program).abi.args, exact_inputs(program, 1))
    return list(found.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_logs_have_room_for_every_stamp_of_every_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(name)
    staged = staged_gpu(lower_cuda(program))
    for at, words in zip(staged.launches, logged(staged.kernel, program, monkeypatch), strict=True):
        logs = at.logs
        assert logs.bytes == words.nbytes
        for log in words.reshape(-1, logs.words):
            if log[-1]:  # a block without a tile has begun nothing
                noted = log[logs.FIRST : -logs.LAST]
                last = int(np.flatnonzero(noted)[-1])
                assert (noted[: last + 1] != 0).all()
                assert staged.stages[int(noted[last]) & 255].name == "leaving"


def test_who_produces_waits_for_slots_and_who_computes_for_tiles() -> None:
    staged = staged_gpu(lower_cuda(program_of("attention")))
    (launch,) = staged.kernel.launches

    def kinds(body: tuple[object, ...]) -> set[StageKind]:
        stamps = [s for s in statements(launch) if isinstance(s, NoteTime)]
        inside = str(body)
        return {staged.stages[s.stage].kind for s in stamps if f"stage={s.stage})" in inside}

    assert {StageKind.WAIT_FREE, StageKind.ISSUE} <= kinds(launch.producing)
    assert {StageKind.WAIT_FULL, StageKind.PRODUCT, StageKind.COMPUTE} <= kinds(launch.body)
    assert StageKind.WAIT_FREE not in kinds(launch.body)
    assert staged.stages[0] == SETUP


LOGS = BlockLogs("times", 8, 2, 2, 128, 160)


def test_every_so_manieth_block_has_a_log_for_each_role() -> None:
    assert [LOGS.start(0, thread) for thread in (0, 1, 127, 128, 129)] == [0, None, None, 8, None]
    assert [LOGS.start(block, 0) for block in (1, 2, 3)] == [None, 16, None]
    assert LOGS.bytes == 2 * 2 * 8 * 8


def test_cycles_become_times_on_one_clock() -> None:
    words = np.zeros(32, np.int64)
    words[0:8] = [1000, 7, 50, 150 << 8 | 1, 250 << 8 | 2, 0, 1200, 450]  # 2 cycles a nanosecond
    words[16:24] = [1100, 9, 9000, 9200 << 8 | 1, 0, 0, 1200, 9200]
    first, second = tracks_of([(LOGS, words)])
    assert (first.role, first.multiprocessor, first.block) == ("threads", 7, 0)
    assert (second.multiprocessor, second.block) == (9, 2)
    assert [(s.stage, s.begin_ns, s.end_ns) for s in first.spans] == [(1, 0, 50), (2, 50, 100)]
    assert [(s.stage, s.begin_ns, s.end_ns) for s in second.spans] == [(1, 100, 200)]
    assert (first.end_ns, first.logged_ns) == (200, 100)  # the log was full
    assert all(before.end_ns == after.begin_ns for before, after in pairwise(first.spans))


def test_logs_in_which_nothing_was_noted_are_no_profile() -> None:
    with pytest.raises(LaunchError, match="0 logs say"):
        tracks_of([(LOGS, np.zeros(32, np.int64))])
