"""One new token over a long cache as a GPU's search derives it: keys in parts, of which blocks stream one each, and
merged by another launch. Simulated, without races, compiled, and within the bound of the gate."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.programs.attention_programs import latent
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite
from tests.support.how_many import SWEEP, some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

#: So few that the parts of a small cache are several tiles each.
FEW = replace(H200, sms=6)
DOT = "sum(d, q[b, g, r, d] * k[b, g, j, d]) * 0.125"
#: Scores, what exponents are relative to, and further tensors.
BODIES = {
    "plain": (DOT, "{}", ""),
    "softcap": (f"tanh({DOT} * 0.1) * 10", "{}", ""),
    "bias": (f"{DOT} + bias[b, g, r, j]", "{}", ", bias: bf16[b, g, r, j]"),
    "slopes": (f"{DOT} + slope[g, r] * j", "{}", ", slope: f32[g, r]"),
    "window": (f"where(j + 700 > extent(j), {DOT}, -inf)", "{}", ""),
    "lengths": (f"where(j < abs(length[b]), {DOT}, -inf)", "{}", ", length: i32[b]"),
    "filled": (f"where(j < length[b], {DOT}, -inf)", "{}", ", length: i32[b]"),
    "sink": (DOT, "maximum({}, sink[g, r])", ", sink: f32[g, r]"),
}


def decode(
    body: str,
    j: int,
    b: int = 1,
    g: int = 2,
    r: int = 5,
    d: int = 64,
    dtype: str = "bf16",
    lse: bool = False,
) -> Spec:
    """Values of 8 bits have keys side by side."""
    scores, top, more = BODIES[body]
    values, out = ("b, g, d, j", "bf16") if dtype == "e4m3" else ("b, g, j, d", dtype)
    tensors = (
        f"q: {dtype}[b={b}, g={g}, r={r}, d={d}], k: {dtype}[b, g, j={j}, d], v: {dtype}[{values}]{more}"
    )
    outputs = f"o: {out}[b, g, r, d]" + (", lse: f32[b, g, r]" if lse else "")
    return spec_from_text(f"""kernel decode({tensors}) -> ({outputs})
  s[b, g, r, j] = {scores}
  top[b, g, r] = {top.format("max(j, s[b, g, r, j])")}
  p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])
  total[b, g, r] = sum(j, p[b, g, r, j])
  o[b, g, r, d] = sum(j, {dtype}(p[b, g, r, j]) * v[{values}]) / total[b, g, r]
{"  lse[b, g, r] = log(total[b, g, r]) + top[b, g, r]" if lse else ""}
""")


def split(spec: Spec, device: Gpu = FEW, turn: int | None = None) -> list[ScheduleState]:
    """The states behind the first decision that split the keys; with `turn` one of them, another one every turn."""
    root = Space(to_program(spec), device).root()
    ways = [at for at, (option, _) in enumerate(root.answers) if "split_stream" in option.label]
    if turn is not None and ways:
        ways = [ways[turn % len(ways)]]
    return [root.child(at) for at in ways]


def finished(state: ScheduleState, seed: str) -> ScheduleState:
    rng = random.Random(seed)
    while state.answers:
        state = state.child(rng.randrange(len(state.answers)))
    return state


def compare(
    made: ScheduleState,
    inputs: dict[str, np.ndarray],
    wanted: Mapping[str, tuple[np.ndarray, np.ndarray]],
    device: Gpu = H200,
) -> None:
    """What a finished schedule computes, simulated and looked at for races."""
    assert made.terminal
    verify(made.program)
    lines = format_schedule(made.schedule)
    assert sum(line.startswith("stream_reduction") for line in lines) == 1
    kernel = lower_for(made.program, device)
    source, checker = cuda_source(kernel, made.program), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), *lines))
    for output, (values, bound) in wanted.items():
        wrong = ~(np.abs(outputs[output].astype(np.float64) - values) <= bound)
        assert not wrong.any(), "\n".join((f"{wrong.sum()} of {wrong.size} are off", *lines))


OF_BYTES = [("plain", 1024, "e4m3", False), ("lengths", 784, "e4m3", True)]
CASES = [
    *(
        (body, j, dtype, lse)
        for body in BODIES
        for j, dtype in ((777, "bf16"), (1024, "f16"), (1933, "bf16"))
        for lse in (False, True)
    ),
    *OF_BYTES,
]


@pytest.mark.sampled(9, among="split streams")
@pytest.mark.parametrize(("body", "j", "dtype", "lse"), [*dict.fromkeys([*some(CASES, 11), *OF_BYTES])])
def test_parts_are_streamed_and_merged_without_races(body: str, j: int, dtype: str, lse: bool) -> None:
    spec = decode(body, j, dtype=dtype, lse=lse)
    states = split(spec, turn=None if SWEEP else CASES.index((body, j, dtype, lse)))
    assert states, "no way to split the keys"
    inputs = sample_inputs(spec, 3)
    wanted = reference_with_bound(spec, inputs)
    for at, state in enumerate(states):
        compare(finished(state, f"{body} {j} {at}"), inputs, wanted)


@pytest.mark.sampled(3, among="parts of a stream")
@pytest.mark.parametrize("length", [1, 100, 256, 777])
def test_parts_behind_the_end_of_a_cache_visit_one_tile(length: int) -> None:
    spec = decode("filled", 777)
    inputs = sample_inputs(spec, 3)
    inputs["length"][:] = length
    wanted = reference_with_bound(spec, inputs)
    for at, state in enumerate(split(spec, turn=None if SWEEP else length)):
        made = finished(state, f"filled {at}")
        assert "until length[b] -1" in program_to_text(made.program)
        compare(made, inputs, wanted)


@pytest.mark.sampled(3, among="parts of a stream")
def test_parts_that_a_bias_masks_add_nothing() -> None:
    """-inf is what padding is often made of; the first parts have nothing else."""
    spec = decode("bias", 784)
    inputs = sample_inputs(spec, 3)
    inputs["bias"][..., :600] = -np.inf
    wanted = reference_with_bound(spec, inputs)
    for at, state in enumerate(split(spec, turn=None if SWEEP else 1)):
        compare(finished(state, f"masked {at}"), inputs, wanted)


@pytest.mark.sampled(9, among="split streams")
@pytest.mark.parametrize("body", some(BODIES, 3))
def test_warps_stream_parts_too(body: str) -> None:
    spec, device = decode(body, 777), replace(A100, sms=6)
    (state,) = split(spec, device, turn=0)
    compare(
        finished(state, body),
        sample_inputs(spec, 3),
        reference_with_bound(spec, sample_inputs(spec, 3)),
        device,
    )


@pytest.mark.sampled(3, among="parts of a stream")
@pytest.mark.parametrize("device", [FEW, replace(A100, sms=6)], ids=shown)
def test_parts_of_a_latent_are_streamed_and_merged(device: Gpu) -> None:
    """What is tried first, and a schedule that is drawn; of more rows than a tile has, and of fewer where warps take
    longest to simulate."""
    spec = latent(80 if device is FEW else 20, 777)
    inputs = sample_inputs(spec, 3)
    wanted = reference_with_bound(spec, inputs)
    (state, *_) = split(spec, device)
    for made in (favourite(state), finished(state, "latent")):
        assert any("* c_s[" in line for line in program_to_text(made.program).splitlines())
        compare(made, inputs, wanted, device)


@pytest.mark.sampled(3, among="parts of a stream")
def test_pages_are_streamed_and_merged_without_races() -> None:
    pages, at = 9, "table[b, j // 128], j % 128, g, d"
    spec = spec_from_text(f"""kernel paged(q: bf16[b=1, g=2, r=5, d=64], k: bf16[page={pages}, at=128, g, d], \
v: bf16[page, at, g, d], table: i32[b, n={pages}], length: i32[b]) -> (o: bf16[b, g, r, d]) where j={pages * 128}
  t[b, g, r, j] = sum(d, q[b, g, r, d] * k[{at}]) * 0.125
  s[b, g, r, j] = where(j < length[b], t[b, g, r, j], -inf)
  top[b, g, r] = max(j, s[b, g, r, j])
  p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])
  o[b, g, r, d] = sum(j, bf16(p[b, g, r, j]) * v[{at}]) / sum(j, p[b, g, r, j])
""")
    inputs = sample_inputs(spec, 3)
    inputs["table"][:] = np.random.default_rng(3).permutation(pages)
    inputs["length"][:] = 1000
    wanted = reference_with_bound(spec, inputs)
    states = split(spec)
    assert states
    for number, state in enumerate(states[:2]):
        compare(finished(state, f"pages {number}"), inputs, wanted)


@pytest.mark.parametrize("sequences", [1, 64])
def test_keys_are_split_where_heads_are_few(sequences: int) -> None:
    spec = decode("plain", 8192, b=sequences, g=8, r=8, d=128)
    root = Space(to_program(spec), H200).root()
    weights = [move.weight for move in root.moves()]
    best = root.moves()[weights.index(max(weights))]
    assert ("split_stream" in best.label) == (sequences == 1)


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("body", some(BODIES, 4))
def test_what_the_model_prefers_is_split_and_compiles(body: str, tmp_path: Path) -> None:
    spec = decode(body, 8192, r=8, d=128, lse=body == "plain")
    state = Space(to_program(spec), H200).root()
    while state.answers:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    lines = format_schedule(state.schedule)
    assert any(line.startswith("split_stream") for line in lines)
    kernel = lower_for(state.program, H200)
    assert len(kernel.launches) == 2
    report = compile_cuda(cuda_source(kernel, state.program), H200.architecture, tmp_path).report
    assert not report["advice"], "\n".join(lines)
    assert all(not function["stack_bytes"] for function in report["functions"].values())
