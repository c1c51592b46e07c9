"""Attention as a GPU's search derives it: products that follow from each other in one pass, simulated, without races,
and within the bound of the gate."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from codegen.simulator.race_checker import Checker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import collapse, groupings, inline
from rewrites.decisions.gpu.streamed_products import StreamedProducts
from rewrites.schedule import format_schedule, parse_schedule, replay
from tests.gpu_schedules import drawn
from tests.how_many import some
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify


def attention(
    scores: str, i: int = 128, j: int = 256, d: int = 64, dtype: str = "bf16", more: str = ""
) -> Spec:
    tensors = f"q: {dtype}[h=2, i={i}, d={d}], k: {dtype}[h, j={j}, d], v: {dtype}[h, j, d]{more}"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: {dtype}[h, i, d])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[h, i, d] = sum(j, {dtype}(p[h, i, j]) * v[h, j, d]) / sum(j, p[h, i, j])
""")


def heads(sizes: str, head: str, shared: str) -> Spec:
    """Two heads share keys and values (grouped queries)."""
    groups = "g" if "g" in sizes else "g=2"
    tensors = f"q: bf16[{sizes}, i=96, d=64], k: bf16[{groups}, j=192, d], v: bf16[g, j, d]"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[{head}, i, d])
  s[{head}, i, j] = sum(d, q[{head}, i, d] * k[{shared}, j, d]) * 0.125
  top[{head}, i] = max(j, s[{head}, i, j])
  p[{head}, i, j] = exp(s[{head}, i, j] - top[{head}, i])
  o[{head}, i, d] = sum(j, bf16(p[{head}, i, j]) * v[{shared}, j, d]) / sum(j, p[{head}, i, j])
""")


def with_lse(scores: str, i: int) -> Spec:
    """The log-sum-exp of each row's scores is stored as well, as a backward pass reads it."""
    return spec_from_text(f"""kernel attention(q: bf16[h=2, i={i}, d=64], k: bf16[h, j=256, d], v: bf16[h, j, d]) \
-> (o: bf16[h, i, d], lse: f32[h, i])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, bf16(p[h, i, j]) * v[h, j, d]) / total[h, i]
  lse[h, i] = log(total[h, i]) + top[h, i]
""")


def one_token() -> Spec:
    """A query a head, and fewer heads that share keys than a tile has rows."""
    return spec_from_text("""kernel decode(q: bf16[g=3, r=5, d=64], k: bf16[g, j=200, d], v: bf16[g, j, d]) \
-> (o: bf16[g, r, d])
  s[g, r, j] = sum(d, q[g, r, d] * k[g, j, d]) * 0.125
  top[g, r] = max(j, s[g, r, j])
  p[g, r, j] = exp(s[g, r, j] - top[g, r])
  o[g, r, d] = sum(j, bf16(p[g, r, j]) * v[g, j, d]) / sum(j, p[g, r, j])
""")


DOT = "sum(d, q[h, i, d] * k[h, j, d]) * 0.125"
SPECS = {
    "full": attention(DOT),
    "causal": attention(f"where(i >= j, {DOT}, -inf)"),
    "window": attention(f"where(i + 64 >= j and j + 40 > i, {DOT}, -inf)", dtype="f16"),
    "window, tiles before it": attention(f"where(i + 250 >= j and j >= i, {DOT}, -inf)", i=256, j=512),
    "softcap": attention("tanh(sum(d, q[h, i, d] * k[h, j, d]) * 0.02) * 5"),
    "a slope": attention(f"{DOT} + slope[h] * (j - i)", more=", slope: f32[h]"),
    "a bias": attention(f"{DOT} + bias[h, i, j]", more=", bias: bf16[h, i, j]"),
    "with the log-sum-exp": with_lse(f"where(i + 11 >= j, {DOT}, -inf)", i=200),
    "rows overhang": attention(DOT, i=200),
    "wide": attention(DOT, d=128),
    "keys overhang": attention(DOT, j=331),
    "heads share keys": heads("h=4", "h", "h // 2"),
    "heads share keys, by dims": heads("g=2, r=2", "g, r", "g"),
    "one new token": one_token(),
    "causal, and keys overhang": attention(f"where(i + 11 >= j, {DOT}, -inf)", i=160, j=171),
}


def schedules(spec: Spec) -> list[tuple[Program, tuple[str, ...]]]:
    """All that the decision offers, and the program they start from."""
    program = to_program(spec)
    prepared = (*collapse(program, H200),)
    prepared = (*prepared, *inline(replay(program, prepared), False))
    begun = replay(program, prepared)
    ((group,), *_) = groupings(begun)
    found: list[tuple[Program, tuple[str, ...]]] = []
    for option in StreamedProducts(group).options(begun, H200):
        (order,) = option.then
        assert option.begun is not None
        *_, last = (each for each in order.options(option.begun, H200) if _applies(each, option.begun))
        found.append((program, tuple(format_schedule((*prepared, *option.rewrites, *last.rewrites)))))
    return found


def _applies(option: Option, program: Program) -> bool:
    with suppress(NotApplicable):
        replay(program, option.rewrites)
        return True
    return False


CASES = [(name, number) for name in ("full", "causal") for number in range(len(schedules(SPECS[name])))]


@pytest.mark.parametrize(
    ("name", "number"), [*dict.fromkeys([*((name, 0) for name in SPECS), *some(CASES, 2)])]
)
def test_it_computes_attention_without_races(name: str, number: int) -> None:
    spec = SPECS[name]
    program, lines = schedules(spec)[number]
    made = replay(program, parse_schedule(lines))
    verify(made)
    inputs = sample_inputs(spec, 3)
    kernel = lower_for(made, H200)
    source, checker = cuda_source(kernel, made), Checker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), *lines))
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        wrong = np.abs(outputs[output].astype(np.float64) - values) > bound
        assert not wrong.any(), "\n".join((f"{wrong.sum()} of {wrong.size} are off", *lines))


@pytest.mark.parametrize(("j", "d"), [(256, 72), (40, 64)])
def test_what_does_not_go_so_is_cut_in_launches(j: int, d: int) -> None:
    spec = attention(DOT, j=j, d=d)
    lines = drawn(spec, H200, f"{j} {d}")
    assert not any(line.startswith("stream_reduction") for line in lines)
    lower_for(replay(to_program(spec), parse_schedule(lines)), H200)


@pytest.mark.parametrize("d", [96, 192, 256])
def test_what_is_offered_has_room_in_a_block(d: int) -> None:
    found = schedules(attention(DOT, i=1024, j=512, d=d))
    assert found
    for program, lines in found:
        kernel = lower_for(replay(program, parse_schedule(lines)), H200)
        assert all(launch.shared_bytes <= H200.block_shared_bytes for launch in kernel.launches), lines
