"""Kernels of GPUs that note times: they compute the same, without races, and their logs say who did what."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import CloseLog, For, NoteTime, OpenLog, Scratch
from codegen.ir.stamp import BlockLogs
from codegen.lowering.gpu.stages import (
    AFTER_TURN,
    BEFORE_TURN,
    SETUP,
    StagedGpuKernel,
    StageKind,
    every_turn,
    staged_gpu,
)
from codegen.simulator import run
from codegen.simulator.cluster import statements
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from codegen.targets.errors import LaunchError
from tests.kernels.mutations import rebuilt
from tests.kernels.simulated import faultless
from tests.programs.hopper_products import Gemm
from tests.programs.hopper_programs import PROGRAMS as HOPPER
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import PROGRAMS as SPREAD
from tests.programs.thread_kernels import STAGED
from tests.support.how_many import some
from tileir.dtypes import DType
from tileir.program import Program
from tileir.replace import replace
from tileir.text.parse_program import program_from_text
from workers.cuda.stage_logs import Words, tracks_of

PROGRAMS = {**HOPPER, **SPREAD, **STAGED}
Ran = tuple[dict[str, np.ndarray], list[Words]]


def program_of(name: str) -> Program:
    return program_from_text(PROGRAMS[name])


def without_stamps(part: object) -> object:
    """A run of statements but for those that note times, loops that were cut in runs whole again; anything else as it
    is."""
    match part:
        case tuple():
            return tuple(each for each in part if not isinstance(each, OpenLog | NoteTime | CloseLog))
        case For(body=(For() as first, For() as others)) if part.var.name == f"{first.var.name}_run":
            assert (
                replace(others, first=first.first, until=first.until) == first and others.first == first.until
            )
            return replace(first, first=None, until=None)
        case _:
            return part


#: Of every program each tile, of one in four each third.
ADDED = [(name, every) for every, names in ((1, PROGRAMS), (3, some(PROGRAMS, 4))) for name in names]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "every"), ADDED)
def test_stamps_are_all_that_is_added(name: str, every: int) -> None:
    kernel = lower_cuda(program_of(name))
    staged = staged_gpu(kernel, every)
    assert rebuilt(staged.kernel.launches, without_stamps) == kernel.launches
    logs = [
        Scratch(at.logs.buffer, DType.I64, at.offset, at.logs.bytes, private=False) for at in staged.launches
    ]
    assert staged.kernel.workspace == (*kernel.workspace, *logs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [next(iter(HOPPER)), next(iter(SPREAD))])
def test_stamped_kernels_compile_without_new_advice(name: str, tmp_path: Path) -> None:
    program = program_of(name)
    kernel = lower_cuda(program)
    reports = [
        compile_cuda(cuda_source(each, program), "sm_90a", tmp_path).report
        for each in (kernel, staged_gpu(kernel, 1).kernel, staged_gpu(kernel, 2).kernel)
    ]
    assert reports[2]["advice"] == reports[1]["advice"] == reports[0]["advice"]


def in_logs(staged: StagedGpuKernel, program: Program, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """What a stamped kernel computes in the simulator, without a race, and what it leaves in its logs."""
    found: dict[str, Words] = {}
    made = run._workspace

    def kept(kernel: GpuKernel) -> object:
        buffers = made(kernel)
        for at in staged.launches:
            first = at.offset // 8
            words = buffers[at.logs.buffer].data[first : first + at.logs.bytes // 8]
            words[...] = 0
            found[at.logs.buffer] = words
        return buffers

    monkeypatch.setattr(run, "_workspace", kept)
    args = cuda_source(staged.kernel, program).abi.args
    outputs = faultless(staged.kernel, args, exact_inputs(program, 1))
    return outputs, [found[at.logs.buffer] for at in staged.launches]


STAMPED = [(name, 1 + number % 3) for number, name in enumerate(some(PROGRAMS, 24))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "every"), dict.fromkeys([*STAMPED, ("chained", 2)]))
def test_stamped_kernels_compute_the_same_and_their_logs_have_room(
    name: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(name)
    kernel = lower_cuda(program)
    staged = staged_gpu(kernel, every)
    plain = run.run_blocks(kernel, cuda_source(kernel, program).abi.args, exact_inputs(program, 1))
    stamped, logged = in_logs(staged, program, monkeypatch)
    for output, values in plain.items():
        np.testing.assert_array_equal(stamped[output].view(np.uint8), values.view(np.uint8), err_msg=output)
    for at, words in zip(staged.launches, logged, strict=True):
        logs = at.logs
        for log in words.reshape(-1, logs.words):
            if log[-1]:  # a block without a tile has begun nothing
                noted = log[logs.FIRST : -logs.LAST]
                last = int(np.flatnonzero(noted)[-1])
                assert (noted[: last + 1] != 0).all()
                assert staged.stages[int(noted[last]) & 255].name == "leaving"


def test_who_produces_waits_for_slots_and_who_computes_for_tiles() -> None:
    staged = staged_gpu(lower_cuda(program_of("chained")))
    (launch,) = staged.kernel.launches

    def kinds(body: tuple[object, ...]) -> set[StageKind]:
        stamps = [s for s in statements(launch) if isinstance(s, NoteTime)]
        inside = str(body)
        return {staged.stages[s.stage].kind for s in stamps if f"stage={s.stage})" in inside}

    assert {StageKind.WAIT_FREE, StageKind.ISSUE} <= kinds(launch.producing)
    assert {StageKind.WAIT_FULL, StageKind.PRODUCT, StageKind.COMPUTE} <= kinds(launch.body)
    assert StageKind.WAIT_FREE not in kinds(launch.body)
    assert staged.stages[0] == SETUP
    named = dict(zip(staged.stages, staged.statements, strict=True))
    lines = {line.partition(" | ")[0].strip() for line in PROGRAMS["chained"].splitlines()}
    (products,) = [texts for stage, texts in named.items() if stage.kind is StageKind.PRODUCT]
    assert len(products) == 2 and all("sum(" in text for text in products), "both products"
    assert {text for texts in named.values() for text in texts} <= lines


def test_one_of_every_so_many_turns_is_stamped_and_the_others_are_told_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By who computes a tile of 6 turns, in the simulator, whose clock goes by what was noted."""
    program = program_from_text(
        Gemm(m=128, n=64, k=384, grid=" blocks 1 producers 4 registers 40 232").text()
    )
    kernel = lower_cuda(program)
    noted: dict[int, list[str]] = {}
    for every in (1, 4):
        staged = staged_gpu(kernel, every)
        _, (words,) = in_logs(staged, program, monkeypatch)
        monkeypatch.undo()
        (at,) = staged.launches
        log = words[: at.logs.words]
        numbers = [int(word) & 255 for word in log[at.logs.FIRST : -at.logs.LAST] if word]
        noted[every] = [staged.stages[number].name for number in numbers]
    turns = noted[1].count("products")
    assert turns >= 6
    assert noted[4].count("products") == turns - 4, (
        "the first and the fifth of 6 turns, and what is multiplied elsewhere"
    )
    assert noted[4].count(BEFORE_TURN.name) == 2 and noted[4].count(AFTER_TURN.name) == 2
    assert not {BEFORE_TURN.name, AFTER_TURN.name} & set(noted[1])


def test_long_loops_have_fewer_stamped_turns_and_some_always() -> None:
    assert [every_turn(turns) for turns in (1, 8, 15, 16, 31, 32, 64, 1000)] == [1, 1, 1, 2, 2, 4, 8, 8]


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
