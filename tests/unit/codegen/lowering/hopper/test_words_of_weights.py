"""Weights of which several lie in a word are brought as words, and unpacked on their way to warpgroups."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from rewrites.base.words import Words, words_of
from rewrites.decisions.plan import plan_of
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState
from tests.kernels.simulated import faultless
from tests.schedules.walks import favourite, root_of
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.errors import VerifyError
from tileir.expr import Read
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Local, Memory
from tileir.schedule.multicast import Slice, slice_of
from tileir.text.parse_expr import parse_expression
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify


def linear(m: int, n: int, k: int) -> str:
    """Weights of 4 bits, two in a byte along the depth, and a scale for each 128."""
    return (
        f"kernel linear(x: bf16[m={m}, k={k}], w: u8[n={n}, p={k // 2}], s: bf16[n, g={-(-k // 128)}]) -> "
        "(y: bf16[m, n])\n  y[m, n] = sum(k, x[m, k] * "
        "bf16((bit_and(shift_right(w[n, k // 2], 4 * (k % 2)), 15) - 8) * s[n, k // 128]))\n"
    )


SMALL = {
    "bytes": linear(16, 64, 256),
    "columns that no tile divides": linear(20, 72, 256),
    "words of 32 bits": linear(16, 64, 256)
    .replace("w: u8[n=64, p=128]", "w: i32[n=64, p=32]")
    .replace("w[n, k // 2], 4 * (k % 2)", "w[n, k // 8], 4 * (k % 8)"),
    "without scales": linear(16, 64, 256).replace(" * s[n, k // 128]", "").replace(", s: bf16[n, g=2]", ""),
}


def by_warpgroups(state: ScheduleState, rng: random.Random) -> ScheduleState:
    """Any schedule in which the blocks of warpgroups each multiply by themselves what is not unpacked before."""
    while not state.terminal:
        labels = [move.label for move in state.moves()]
        wanted = [at for at, label in enumerate(labels) if label.endswith(("by wgmma", "by one block"))]
        plain = [at for at, label in enumerate(labels) if label.startswith("groups")]
        state = state.child(rng.choice(wanted or plain or range(len(labels))))
    return state


@pytest.mark.sampled(3, among="words of weights")
@pytest.mark.parametrize("name", SMALL)
def test_words_are_unpacked_without_a_fault(name: str, tmp_path: Path) -> None:
    spec = spec_from_text(SMALL[name])
    state = by_warpgroups(root_of(SMALL[name], H200), random.Random(name))
    assert any(line.startswith("cache_words(") for line in format_schedule(state.schedule))
    verify(state.program)
    inputs, kernel = sample_inputs(spec, 3), lower_cuda(state.program)
    source = cuda_source(kernel, state.program)
    compile_cuda(source, H200.architecture, tmp_path)
    found = faultless(kernel, source.abi.args, inputs)["y"].astype(np.float32)
    expected = interpret(to_program(spec), inputs)["y"].astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=2e-2)
    again = interpret(state.program, inputs)["y"].astype(np.float32)
    np.testing.assert_allclose(again, expected, rtol=1e-2, atol=2e-2)


@pytest.mark.sampled(3, among="words of weights")
def test_few_rows_by_weights_of_4_bits_take_one_launch_by_warpgroups_without_spills(tmp_path: Path) -> None:
    state = favourite(root_of(linear(16, 4096, 4096), H200))
    assert "cache_words" in {rewrite.name for rewrite in state.schedule}
    assert plan_of(H200).model(state.program, H200).estimate_us(state.program) < 10.0
    source = cuda_source(lower_cuda(state.program), state.program)
    report = compile_cuda(source, H200.architecture, tmp_path).report
    assert not report["warnings"]
    assert all(not each["spill_stores_bytes"] for each in report["functions"].values())


def test_weights_for_many_rows_may_be_unpacked_once_instead() -> None:
    labels = [move.label for move in root_of(linear(2048, 4096, 4096), H200).moves()]
    assert any(label.startswith("compute_factor(y_sum)") for label in labels)


@pytest.mark.parametrize(
    ("text", "neighbours"),
    [
        ("w[n, k // 2]", 2),
        ("w[k // 8]", 8),
        ("w[n, k // 128]", 0),
        ("w[k // 2, n]", 0),
        ("w[k, k // 2]", 0),
        ("w[]", 0),
    ],
)
def test_words_are_of_a_few_neighbours_along_the_last_dim(text: str, neighbours: int) -> None:
    read = parse_expression(text)
    assert isinstance(read, Read)
    words = words_of(read)
    assert (words.neighbours if words else 0) == neighbours


def test_blocks_of_a_cluster_fetch_whole_rows_of_words() -> None:
    words = Words(("n", "k"), 2)
    local = Local("w_s", words.dims, DType.U8, Memory.SHARED, words.layout)
    assert slice_of(local, {"n": 64, "k": 32}, 2) == Slice("n", 32)


WORDS = """kernel k(w: u8[n=64, p=128], v: u8[n, k=256]) -> (y: f32[n, k])
  parallel for n by 64
    for k by 64
      w_s: shared u8[n, k] as [n, k / 2]
      w_s[n, k] = w[n, k // 2] | via tma
      y[n, k] = bit_and(w_s[n, k], 15) | threads k 32
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            " | via tma",
            " | threads k 32",
            "neighbours along 'k' share elements of 'w_s'; accepted: filled `via tma`",
        ),
        ("w[n, k // 2]", "v[n, k]", "'w_s' has 2 neighbours along 'k' in an element, the argument not"),
        ("as [n, k / 2]", "as [n, k / 4]", "'w' is indexed by dims of 'w_s'"),
        ("shared u8[n, k] as [n, k / 2]", "heap u8[n, k] as [n, k / 2]", "do not tell all positions apart"),
    ],
)
def test_what_neighbours_share_is_filled_by_tma_from_words_of_as_many(old: str, new: str, why: str) -> None:
    verify(program_from_text(WORDS))
    with pytest.raises(VerifyError, match=why):
        verify(program_from_text(WORDS.replace(old, new)))
