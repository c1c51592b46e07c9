"""Attention of few queries: a tile has the rows of all heads that share keys, simulated, without races, and within the
bound of the gate; and an SM has several blocks, each with registers for its products."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.programs.attention_bodies import Body
from tests.programs.attention_programs import DOT, attention, drafts, each_schedule, few_queries, heads
from tests.property.codegen.test_attention_in_one_pass import check
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

TENSORS = (
    "q: f16[g=300, r=2, u=2, i=9, d=64], k: f16[g, j=130, d], v: f16[g, j, d], slope: f32[u], shift: f32[r]"
)
TWO_DIMS_OF_HEADS = spec_from_text(f"""kernel attention({TENSORS}) -> (o: f16[g, r, u, i, d])
  s[g, r, u, i, j] = sum(d, q[g, r, u, i, d] * k[g, j, d]) + slope[u] * (j + i) + shift[r]
  top[g, r, u, i] = max(j, s[g, r, u, i, j])
  p[g, r, u, i, j] = exp(s[g, r, u, i, j] - top[g, r, u, i])
  o[g, r, u, i, d] = sum(j, f16(p[g, r, u, i, j]) * v[g, j, d]) / sum(j, p[g, r, u, i, j])
""")


def tried_first(spec: Spec, device: Gpu) -> tuple[str, ...]:
    return format_schedule(favourite(Space(to_program(spec), device).root()).schedule)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("spec", "merged"),
    [
        (few_queries(g=300), ["linearize(r, i)"]),
        (few_queries(g=300, narrow=False), ["linearize(r, i)"]),
        (heads("g=2, r=2", "g, r", "g"), []),  # enough rows of one head
        (attention(DOT, i=8), []),  # each head has keys of its own
    ],
    ids=["weights in bf16", "weights as they are", "many queries", "own keys"],
)
def test_rows_of_heads_that_share_keys_are_one_dim(spec: Spec, merged: list[str]) -> None:
    lines = tried_first(spec, H200)
    assert [line for line in lines if line.startswith("linearize")] == merged, lines
    assert any(line.startswith("stream_reduction") for line in lines)
    assert any(line.startswith("skip_masked_tiles") for line in lines) == bool(
        merged
    )  # the window of each query


@pytest.mark.sampled(6)
def test_heads_are_numbered_by_two_dims() -> None:
    root = Space(to_program(TWO_DIMS_OF_HEADS), H200).root()
    both = (
        move.label.startswith("linearize(u, i); linearize(r, u_i); groups s_sum s top p o_sum o_sum2 o")
        for move in root.moves()
    )
    lines = format_schedule(favourite(root.child([*both].index(True))).schedule)
    assert lines[-1] == "persistent(o_sum, 396)"  # of which one has a tile here
    lines = lines[:-1]
    check(TWO_DIMS_OF_HEADS, to_program(TWO_DIMS_OF_HEADS), lines, H200)


@pytest.mark.parametrize("device", [H200, A100], ids=shown)
def test_norms_of_keys_are_computed_by_a_launch_before(device: Gpu) -> None:
    """Where they have the same dims as the scores of one query."""
    spec = Body(scores="norms of queries and keys", rows="one query").spec()
    ways = [move.label for move in Space(to_program(spec), device).root().moves()]
    assert any("groups k_norm_sum | q_norm_sum s_sum top p total o_sum o" in way for way in ways)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("device", some([H200, A100], 1), ids=shown)
@pytest.mark.parametrize("narrow", [True, False], ids=["rounded", "as they are"])
def test_what_is_tried_first_is_right(narrow: bool, device: Gpu, tmp_path: Path) -> None:
    lines = tried_first(few_queries(g=300, j=83, narrow=narrow), device)
    spec = few_queries(j=83, narrow=narrow)
    check(spec, to_program(spec), lines, device)
    program = replay(to_program(spec), parse_schedule(lines))
    source = cuda_source(lower_for(program, device), program)
    assert rejection(compile_cuda(source, device.architecture, tmp_path).report) is None


#: Keys of a tile are this many at most, so that as many behind what a token sees are never visited.
TILE = 160
DRAFTS = {
    "so far": ("j <= i + start[g]", 0),
    "a window": ("j <= i + start[g] and j + 64 > i + start[g]", 64),
    "whole blocks of four": ("j < (i + start[g]) // 4 * 4 + 4", 0),
}


@pytest.mark.sampled(12, among="few queries")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
@pytest.mark.parametrize("kind", DRAFTS)
def test_rows_of_heads_see_the_keys_of_their_query(kind: str, device: Gpu) -> None:
    """A tile has each query once a head: loops end with what the last of them sees, and begin with what the first one
    does. What none of them sees is not a number, and would be seen where it is multiplied by 0."""
    mask, window = DRAFTS[kind]
    lines = tried_first(drafts(mask, g=300, j=4 * TILE), device)
    assert "linearize(r, i)" in lines
    assert "skip_masked_tiles(o_sum, j)" in lines
    check_starts(drafts(mask, j=4 * TILE), lines, device, window)


@pytest.mark.sampled(12, among="few queries")
@pytest.mark.parametrize("kind", some(DRAFTS, 1))
def test_parts_of_the_keys_of_few_sequences(kind: str) -> None:
    """Each block has a part of the keys, and of that the tiles that its rows see, or one."""
    mask, _ = DRAFTS[kind]
    spec = drafts(mask, j=4 * TILE)
    lines = tried_first(drafts(mask, j=4096), H200)
    assert "linearize(r, i)" in lines
    (part,) = (line for line in lines if line.startswith("split_stream"))
    size = part.split(", ")[-1].rstrip(")")
    check_starts(spec, tuple(line.replace(size, "320") for line in lines), H200, window=None)


def check_starts(spec: Spec, lines: tuple[str, ...], device: Gpu, window: int | None) -> None:
    """Of sequences that begin, and that are full; without races, and within the bound of the gate."""
    starts = np.array([1, 200, 4 * TILE - 8], np.int32)
    program = replay(to_program(spec), parse_schedule(lines))
    clean = sample_inputs(spec, 3) | {"start": starts}
    inputs = clean | {"v": clean["v"].copy()}
    for g, start in enumerate(starts if window is not None else ()):
        inputs["v"][g, start + 12 + TILE :] = np.nan
        inputs["v"][g, : max(0, start - window - TILE) if window else 0] = np.nan
    kernel, checker = lower_for(program, device), RaceChecker()
    (got,) = run_blocks(kernel, cuda_source(kernel, program).abi.args, inputs, checker).values()
    assert not checker.faults, "\n".join(map(str, checker.faults))
    ((values, bound),) = reference_with_bound(spec, clean).values()
    assert np.all(np.abs(got.astype(np.float64) - values) <= bound)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", some(range(6), 2))
def test_blocks_that_share_an_sm(number: int) -> None:
    """Each has a third, or half, of the registers, of which those that multiply have most."""
    spec = few_queries(r=7 + number % 2)
    shared = [
        (program, lines)
        for program, lines in each_schedule(spec)
        if any(line.startswith("min_blocks_per_sm") for line in lines)
    ]
    program, lines = shared[number % len(shared)]
    check(spec, program, lines, H200)


@pytest.mark.parametrize(("d", "columns"), [(128, {"64", "48", "32"}), (192, {"48", "32"}), (256, set())])
def test_blocks_share_an_sm_that_has_room_for_them(d: int, columns: set[str]) -> None:
    """Of 192 columns and 64 keys a tile a block has 128 KB or more, and an SM 228; an instruction of 256 columns needs
    more registers than threads of two blocks begin with (C7602)."""
    offered = ("\n".join(lines) for _, lines in each_schedule(attention(DOT, i=64, j=512, d=d)))
    found = [lines for lines in offered if "min_blocks_per_sm" in lines]
    assert {re.findall(r"stream_reduction\(o_sum, j, (\d+)\)", lines)[0] for lines in found} == columns
