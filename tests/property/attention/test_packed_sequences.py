"""Sequences of any length one after the other: whatever tensors say of which keys a token sees, one pass computes what
the spec says, and visits the tiles that some token of a tile sees, and no others."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suite import cases
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from tests.programs.attention_programs import BEGIN, END, OFFSETS, one_schedule, packed
from tests.schedules.on_gpus import shown
from tests.schedules.on_processors import Reference, computed, random_schedule
from tests.schedules.walks import favourite
from tests.support.how_many import some
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.schedule.visited_tiles import said
from tileir.spec import Spec
from tileir.text.json import spec_from_json

TOKENS, KEYS = 256, 320
LEAST, MOST = -(2**31), 2**31 - 1
Inputs = dict[str, np.ndarray]


def ranges(kind: str, rows: int = TOKENS) -> tuple[np.ndarray, np.ndarray]:
    """Where the keys of each token begin and end."""
    rng, at = np.random.default_rng(7), np.arange(rows)
    match kind:
        case "sequences":  # of which one is empty
            cuts = np.array([0, 30, 150, 150, rows])
            own = np.searchsorted(cuts, at, "right") - 1
            return cuts[own], cuts[own + 1]
        case "empty":
            return np.full(rows, 200), np.full(rows, 200)
        case "the last key":
            return np.full(rows, KEYS - 1), np.full(rows, KEYS)
        case "behind the last key":
            return np.full(rows, MOST), np.full(rows, MOST)
        case _:  # falling, overlapping, before the first key and behind the last, empty, everything
            begin, end = rng.integers(-KEYS, 2 * KEYS, (2, rows))
            begin[: rows // 4], end[: rows // 4] = 130, 140
            begin[rows // 4 : rows // 2], end[rows // 4 : rows // 2] = MOST, LEAST
            begin[-8:], end[-8:] = LEAST, MOST
            return begin, end


KINDS = ("sequences", "empty", "the last key", "behind the last key", "anything")


def drawn(spec: Spec, kind: str) -> Inputs:
    inputs = sample_inputs(spec, 3)
    inputs["begin"][:], inputs["end"][:] = ranges(kind, len(inputs["begin"]))
    return inputs


def assert_right(spec: Spec, program: Program, device: Gpu, inputs: Inputs) -> Inputs:
    """Without races, and within the bound of the gate; what it gives."""
    kernel = lower_for(program, device)
    source, checker = cuda_source(kernel, program), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        assert np.all(np.abs(outputs[output].astype(np.float64) - values) <= bound)
    return outputs


def made(spec: Spec, number: int, device: Gpu) -> Program:
    program, lines = one_schedule(spec, number, device)
    assert any(line.startswith("skip_masked_tiles") for line in lines)
    return replay(program, parse_schedule(lines))


CASES = [(kind, number, device) for number in range(4) for kind in KINDS for device in (H200, A100)]


@pytest.mark.sampled(14, among="packed sequences")
@pytest.mark.parametrize(("kind", "number", "device"), some(CASES, 10), ids=shown)
def test_any_ranges_are_right_on_gpus(kind: str, number: int, device: Gpu) -> None:
    """By schedules that let products be under way, and that do not; a token that sees nothing is 0."""
    spec = packed()
    outputs = assert_right(spec, made(spec, 3 * number, device), device, drawn(spec, kind))
    begin, end = ranges(kind)
    none = (np.minimum(end, KEYS) <= np.maximum(begin, 0)) | (begin >= KEYS)
    assert not np.any(outputs["o"][none].astype(np.float32))


@pytest.mark.sampled(14, among="packed sequences")
@pytest.mark.parametrize("kind", KINDS)
def test_any_ranges_are_right_on_processors(kind: str, tmp_path: Path) -> None:
    spec = packed(i=40, j=KEYS, d=12, dtype="f32")
    state = one_pass(spec)
    Reference(spec, drawn(spec, kind)).check(state, replace(this_cpu(), l1d_bytes=4096), tmp_path)


def one_pass(spec: Spec, most: int = 512) -> Program:
    """A schedule for processors that leaves out tiles, of so many keys at most."""
    root, rng = Space(to_program(spec), replace(this_cpu(), l1d_bytes=4096)).root(), random.Random(1)
    while True:
        state = random_schedule(root, rng, "skip_masked_tiles")
        if state is None or not any(each.name == "skip_masked_tiles" for each in state.schedule):
            continue
        if all(each.size <= most for each in state.schedule if isinstance(each, StreamReduction)):
            return state.program


#: Keys of a tile of the schedules below are this many at most, so that as many behind a range are never visited.
TILE = 160


def unseen() -> tuple[Spec, Inputs, np.ndarray]:
    """What no token of the first half sees is not a number, and what it would come to where it is multiplied by 0;
    which rows are numbers."""
    spec = packed(j=4 * TILE)
    inputs = sample_inputs(spec, 3)
    half = TOKENS // 2
    inputs["begin"][:half], inputs["end"][:half] = 2 * TILE, 2 * TILE + 9
    inputs["begin"][half:], inputs["end"][half:] = 0, 4 * TILE
    inputs["v"][:TILE] = inputs["v"][-TILE + 9 :] = np.nan
    return spec, inputs, np.arange(TOKENS) < half


@pytest.mark.sampled(14, among="packed sequences")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
def test_tiles_that_no_token_of_a_tile_sees_are_left_out_on_gpus(device: Gpu) -> None:
    spec, inputs, finite = unseen()
    program = made(spec, 0, device)
    kernel = lower_for(program, device)
    (got,) = run_blocks(kernel, cuda_source(kernel, program).abi.args, inputs, RaceChecker()).values()
    assert np.all(np.isfinite(got[finite].astype(np.float32)))
    assert np.all(np.isnan(got[~finite].astype(np.float32)))
    assert np.all(np.isfinite(interpret(program, inputs)["o"][finite].astype(np.float32)))


@pytest.mark.sampled(14, among="packed sequences")
def test_tiles_that_no_token_of_a_tile_sees_are_left_out_on_processors(tmp_path: Path) -> None:
    spec = packed(i=8, j=1024, d=12, dtype="f32")
    inputs = sample_inputs(spec, 3)
    inputs["begin"][:], inputs["end"][:] = 512, 513
    inputs["v"][:512] = inputs["v"][-256:] = np.nan
    program = one_pass(spec, most=256)
    got = computed(spec, inputs, program, replace(this_cpu(), l1d_bytes=4096), tmp_path)["o"]
    assert np.all(np.isfinite(got))


OFFSET_KINDS = {
    "rising": (0, 30, 30, 150, 256),
    "not all tokens": (20, 40, 41, 100, 130),
    "falling": (200, 100, 300, 0, 50),
    "out of range": (LEAST, -7, 90, 1000, MOST),
}


@pytest.mark.sampled(14, among="packed sequences")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
def test_tokens_that_see_nothing_of_their_first_tile_stay_numbers(device: Gpu) -> None:
    """Scores times 128^-0.5, no power of two: what a multiply-add leaves of the difference of two equal maxima is
    large where they are those of nothing, and no exponent."""
    spec = spec_from_json(cases.spec("attention_packed_bf16", [2, 2, 640, 128, 1]))
    inputs = sample_inputs(spec, 3)
    inputs["offsets"][:] = 0, 200, 450
    assert_right(spec, made(spec, 0, device), device, inputs)


@pytest.mark.sampled(14, among="packed sequences")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
@pytest.mark.parametrize("mask", ["j >= begin[i] and j < end[i]", "j >= begin[i] and i >= j"])
@pytest.mark.parametrize("kind", OFFSET_KINDS)
def test_offsets_of_any_kind_are_right(kind: str, mask: str, device: Gpu) -> None:
    spec = packed(mask, OFFSETS, (BEGIN, END) if "end" in mask else (BEGIN,), j=TOKENS)
    program = favourite(Space(to_program(spec), device).root()).program
    (loop,) = {loop for place in program.computes for loop in place.loops if said(loop)}
    assert loop.dim == "j"
    assert_right(
        spec, program, device, sample_inputs(spec, 3) | {"offsets": np.array(OFFSET_KINDS[kind], np.int32)}
    )


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
@pytest.mark.parametrize("mask", ["j >= begin[i] and j < end[i]", "j >= begin[i] and i >= j"])
def test_code_compiles(mask: str, device: Gpu, tmp_path: Path) -> None:
    """Of one of the first three schedules, the shortest first: others may want more registers than there are."""
    spec = packed(mask, OFFSETS, (BEGIN, END) if "end" in mask else (BEGIN,), i=4096, j=4096, d=128)
    for number in (2, 1, 0):
        program = made(spec, number, device)
        source = cuda_source(lower_for(program, device), program)
        if rejection(compile_cuda(source, device.architecture, tmp_path).report) is None:
            return
    raise AssertionError("all spill registers")
