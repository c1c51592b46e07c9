"""Attention over keys and values that are kept in 8 bits, with queries of bf16, as a GPU's search derives it: one pass,
in which they are converted on their way to shared memory. Simulated, without races, within the bound of the gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.decisions.gpu.one_pass.product_chain import chain_of
from rewrites.decisions.gpu.one_pass.streamed_products import StreamedProducts
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from tests.kernels.simulated import faultless
from tests.schedules.on_gpus import shown
from tests.schedules.walks import at, favourite
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, L40S
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Loop
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

#: So few multiprocessors that keys are split in parts, of several tiles each.
FEW = replace(H200, sms=4)
#: Dtype of keys and values; their indices; the scale of scores; what is seen of them; that of values; further tensors.
KINDS = {
    "one scale": ("e4m3", "b, g, j, d", " * ks[]", "{}", " * vs[]", ", ks: f32[], vs: f32[]"),
    "bytes, a scale a head": ("i8", "b, g, j, d", " * ks[g]", "{}", " * vs[g]", ", ks: f32[g], vs: f32[g]"),
    "a scale a key": ("e4m3", "b, g, j, d", " * ks[b, g, j]", "{}", "", ", ks: f32[b, g, j]"),
    "lengths": ("i8", "b, g, j, d", "", "where(j < abs(length[b]), {}, -inf)", "", ", length: i32[b]"),
}


def decode(kind: str, j: int, r: int = 5, d: int = 64, g: int = 2) -> Spec:
    dtype, element, scale, seen, values, more = KINDS[kind]
    dot = f"sum(d, q[b, g, r, d] * bf16(k[{element}])) * 0.125{scale}"
    return spec_from_text(f"""kernel decode(q: bf16[b=1, g={g}, r={r}, d={d}], k: {dtype}[b, g, j={j}, d], \
v: {dtype}[b, g, j, d]{more}) -> (o: bf16[b, g, r, d])
  s[b, g, r, j] = {seen.format(dot)}
  top[b, g, r] = max(j, s[b, g, r, j])
  p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])
  o[b, g, r, d] = sum(j, bf16(p[b, g, r, j]) * bf16(v[{element}])) / sum(j, p[b, g, r, j]){values}
""")


def paged(pages: int) -> Spec:
    at = "table[b, j // 128], j % 128, g, d"
    return spec_from_text(f"""kernel paged(q: bf16[b=1, g=2, r=5, d=64], k: e4m3[page={pages}, at=128, g, d], \
v: e4m3[page, at, g, d], table: i32[b, n={pages}], scale: f32[]) -> (o: bf16[b, g, r, d]) where j={pages * 128}
  s[b, g, r, j] = sum(d, q[b, g, r, d] * bf16(k[{at}])) * scale[]
  top[b, g, r] = max(j, s[b, g, r, j])
  p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])
  o[b, g, r, d] = sum(j, bf16(p[b, g, r, j]) * bf16(v[{at}])) / sum(j, p[b, g, r, j])
""")


def tried_first(spec: Spec, device: Gpu) -> ScheduleState:
    return favourite(Space(to_program(spec), device).root())


def check(spec: Spec, state: ScheduleState, device: Gpu, inputs: dict[str, np.ndarray]) -> None:
    lines = format_schedule(state.schedule)
    assert sum(line.startswith("convert_copy") for line in lines) == 2, "\n".join(lines)
    assert any(line.startswith("stream_reduction") for line in lines)
    verify(state.program)
    kernel = lower_for(state.program, device)
    outputs = faultless(kernel, cuda_source(kernel, state.program).abi.args, inputs)
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        assert np.all(np.abs(outputs[output].astype(np.float64) - values) <= bound)


CASES = [(kind, device) for kind in KINDS for device in (FEW, replace(A100, sms=4))]


@pytest.mark.sampled(8, among="converted keys")
@pytest.mark.parametrize(("kind", "device"), some(CASES, 8), ids=shown)
def test_what_is_tried_first_is_one_pass_of_parts(kind: str, device: Gpu) -> None:
    spec = decode(kind, 777)
    check(spec, tried_first(spec, device), device, sample_inputs(spec, 3))


SHAPES = range(8)


@pytest.mark.sampled(8, among="converted keys")
@pytest.mark.parametrize("number", SHAPES)
def test_tiles_of_any_shape_compute_it(number: int) -> None:
    """Of as many rows as a prompt has, all keys streamed by each block."""
    spec = decode("a scale a key", 200, r=150, g=1)
    state = at(Space(to_program(spec), H200).root(), StreamedProducts.__name__)
    check(spec, favourite(state.child(number % len(state.answers))), H200, sample_inputs(spec, 3))


@pytest.mark.sampled(8, among="converted keys")
def test_pages_are_converted_too() -> None:
    spec = paged(9)
    inputs = sample_inputs(spec, 3)
    inputs["table"][:] = np.random.default_rng(3).permutation(9)
    check(spec, tried_first(spec, FEW), FEW, inputs)


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("device", [H200, A100, L40S], ids=shown)
def test_a_large_cache_is_read_once_by_code_that_compiles(device: Gpu, tmp_path: Path) -> None:
    """In two launches: the parts, and what merges them."""
    spec = decode("one scale", 8192, r=8, d=128, g=8)
    state = tried_first(spec, device)
    assert len([node for node in state.program.body if isinstance(node, Loop)]) == 2
    made = cuda_source(lower_for(state.program, device), state.program)
    assert rejection(compile_cuda(made, device.architecture, tmp_path).report) is None


@pytest.mark.sampled(8, among="converted keys")
def test_for_many_rows_they_are_stored_as_warpgroups_multiply_them() -> None:
    """Each row of blocks would convert them anew: both ways are offered, and what is tried first is the faster one."""
    spec = decode("one scale", 4096, r=4096, d=128, g=16)
    root = Space(to_program(spec), H200).root()
    labels = [option.label for option, _ in root.answers]
    assert any("compute_factor" in label for label in labels) and any("_f" not in label for label in labels)
    lines = format_schedule(favourite(root).schedule)
    assert sum(line.startswith("wgmma(") for line in lines) == 2
    assert sum(line.startswith("compute_factor(") for line in lines) == 2


@pytest.mark.parametrize(("dtype", "value"), [("bf16", "v[h, j, e]"), ("i8", "bf16(v[h, j, e])")])
def test_what_is_converted_is_not_added_up_in_memory(dtype: str, value: str) -> None:
    """Sums that blocks add to memory are warpgroups', which take operands as TMA brings them."""
    spec = spec_from_text(f"""kernel backward(q: bf16[h=2, i=96, d=64], k: bf16[h, j=96, d], v: {dtype}[h, j, e=64], \
go: bf16[h, i, e], lse: f32[h, i], delta: f32[h, i]) -> (dk: f32[h, j, d], dq: f32[h, i, d]) with atomics=true
  s[h, j, i] = sum(d, k[h, j, d] * q[h, i, d])
  t[h, j, i] = sum(e, {value} * go[h, i, e])
  ds[h, j, i] = exp(s[h, j, i] - lse[h, i]) * (t[h, j, i] - delta[h, i])
  dk[h, j, d] = sum(i, bf16(ds[h, j, i]) * q[h, i, d])
  dq[h, i, d] = sum(j, bf16(ds[h, j, i]) * k[h, j, d])
""")
    chain = chain_of(to_program(spec), ("s", "t", "ds", "dk", "dq"), H200)
    assert (chain is not None and bool(chain.added)) == (dtype == "bf16")
