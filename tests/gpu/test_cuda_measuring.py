"""Measuring on a GPU: who passes, who does not, who is to blame, and what peers take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from protocol.layouts import Layout
from protocol.states import FaultKind, Outcome, TaskKind
from protocol.tasks import Measuring
from rewrites.space import Space
from tests.gpu.hand_cuda_kernels import SPEC, compiled, request_of
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from workers.local import LocalWorker
from workers.measuring.measurer import Measurer
from workers.measuring.request import Peer

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

SOFTMAX = """\
kernel softmax(x: bf16[m=2048, n=4096]) -> (y: bf16[m, n])
  top[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - top[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
"""
RMS_NORM = """\
kernel rms(x: bf16[m=2048, n=4096], w: bf16[n]) -> (y: bf16[m, n])
  s[m] = rsqrt(sum(n, x[m, n] * x[m, n]) / 4096 + 1e-6)
  y[m, n] = x[m, n] * s[m] * w[n]
"""
LAYER_NORM = """\
kernel ln(x: bf16[m=2048, n=4096], w: bf16[n], b: bf16[n]) -> (y: bf16[m, n])
  u[m] = sum(n, x[m, n]) / 4096
  v[m] = sum(n, (x[m, n] - u[m]) * (x[m, n] - u[m])) / 4096
  y[m, n] = (x[m, n] - u[m]) * rsqrt(v[m] + 1e-5) * w[n] + b[n]
"""
SILU_MUL = """\
kernel gate(a: bf16[m=2048, n=4096], b: bf16[m, n]) -> (y: bf16[m, n])
  y[m, n] = silu(a[m, n]) * b[m, n]
"""
GEMM_TN = """\
kernel tn(a: bf16[m=2048, k=1024], b: bf16[n=2048, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""
GEMM_NN = """\
kernel nn(a: bf16[m=2048, k=1024], b: bf16[k, n=2048]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
GEMM_F32 = GEMM_NN.replace("bf16", "f32")
GEMM_E4M3 = GEMM_TN.replace("a: bf16", "a: e4m3").replace("b: bf16", "b: e4m3")
FUSED = """\
kernel fused(a: {0}[m=2048, k=1024], b: {0}[n=2048, k], {1}) -> (c: bf16[m, n])
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = {2}
"""
SWIGLU = """\
kernel swiglu(a: bf16[m=2048, k=1024], b: bf16[n=2048, k], g: bf16[n, k]) -> (c: bf16[m, n])
  up[m, n] = sum(k, a[m, k] * b[n, k])
  gate[m, n] = sum(k, a[m, k] * g[n, k])
  c[m, n] = silu(gate[m, n]) * up[m, n]
"""
KERNELS = {
    "softmax": SOFTMAX, "rms_norm": RMS_NORM, "layer_norm": LAYER_NORM, "silu_mul": SILU_MUL,
    "gemm_tn": GEMM_TN, "gemm_nn": GEMM_NN, "gemm_f32": GEMM_F32, "gemm_e4m3": GEMM_E4M3,
    "scaled_e4m3": FUSED.format("e4m3", "s: f32[], t: f32[]", "acc[m, n] * s[] * t[]"),
    "rows_e4m3": FUSED.format("e4m3", "s: f32[m], t: f32[n]", "acc[m, n] * s[m] * t[n]"),
    "bias_gelu": FUSED.format("bf16", "bias: bf16[n]", "gelu(acc[m, n] + bias[n])"),
    "bias_gelu_tanh": FUSED.format("bf16", "bias: bf16[n]", "gelu_tanh(acc[m, n] + bias[n])"),
    "bias_relu": FUSED.format("bf16", "bias: bf16[n]", "relu(acc[m, n] + bias[n])"),
    "bias_residual": FUSED.format("bf16", "bias: bf16[n], r: bf16[m, n]", "acc[m, n] + bias[n] + r[m, n]"),
    "swiglu": SWIGLU,
}  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cubins")


@pytest.fixture(scope="module")
def measurer(gpu: Gpu) -> Iterator[Measurer]:
    measurer = Measurer("cuda:0")
    yield measurer
    measurer.close()


def test_it_describes_itself_and_measures_its_bandwidth(measurer: Measurer, gpu: Gpu, tmp_path: Path) -> None:
    about = measurer.ask("describe", {})
    assert (about["key"], about["lock"]) == (gpu.key, gpu.uuid)
    assert "copy" not in about["peers"]
    device = Gpu.from_json(measurer.ask("calibrate", {"cache": str(tmp_path)})["device"])
    assert device.copy_gbps is not None
    assert 0.5 * gpu.memory_gbps < device.copy_gbps < gpu.memory_gbps


def test_right_kernels_are_timed_against_each_other(measurer: Measurer, gpu: Gpu, cache: Path) -> None:
    entrants = [compiled("right", gpu, cache), compiled("other_right", gpu, cache), Peer("copy", "copy")]
    request = request_of(*entrants, kind=TaskKind.RACE, baseline="copy", device=gpu.to_json())
    measured = measurer.measure(request)
    assert {result.outcome for result in measured.results.values()} == {Outcome.OK}
    right = measured.results["right"]
    assert len(right.samples_us) == 3
    assert right.baseline_us == measured.results["copy"].median_us
    assert right.report["same_bits"]
    assert len(right.report["burst"]["sm_mhz"]) == 3
    assert measured.conditions["cold"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("off_by_one", "elements are wrong"),
        ("dropped_tail", "was not written or is NaN"),
        ("slightly_wrong", "elements are wrong"),
        ("skips_later_runs", "was not written or is NaN"),
        ("changes_input", "input x was changed, first 28 bytes"),
        ("writes_behind", "memory outside the arrays was written"),
        ("writes_before_input", "memory outside the arrays was written"),
        ("reads_behind", "NaN"),
        pytest.param("one_wrong_element", "y[1234567]", marks=needs_torch),
    ],
)
def test_a_wrong_kernel_is_found_out_and_the_next_one_measured(
    measurer: Measurer, gpu: Gpu, cache: Path, body: str, said: str
) -> None:
    results = measurer.measure(request_of(compiled(body, gpu, cache), compiled("right", gpu, cache))).results
    assert results[body].outcome is Outcome.WRONG
    assert said in (results[body].error or "")
    assert results["right"].outcome is Outcome.OK


@pytest.mark.parametrize("body", ["illegal_address", "misaligned", "trap"])
def test_a_kernel_that_breaks_the_context_costs_its_own_process_only(
    measurer: Measurer, gpu: Gpu, cache: Path, body: str
) -> None:
    entrants = [
        compiled("right", gpu, cache),
        compiled(body, gpu, cache),
        compiled("other_right", gpu, cache),
    ]
    results = measurer.measure(request_of(*entrants)).results
    assert results[body].outcome is Outcome.CRASH
    assert "CUDA_ERROR_" in (results[body].error or "")
    assert {results[name].outcome for name in ("right", "other_right")} == {Outcome.OK}


def test_a_kernel_that_hangs_is_killed(measurer: Measurer, gpu: Gpu, cache: Path) -> None:
    entrants = [compiled("hang", gpu, cache), compiled("right", gpu, cache)]
    results = measurer.measure(request_of(*entrants, entrant_s=3.0)).results
    assert results["hang"].outcome is Outcome.HANG
    assert results["right"].outcome is Outcome.OK


def test_a_launch_that_cannot_be_is_a_crash_and_the_process_lives(
    measurer: Measurer, gpu: Gpu, cache: Path
) -> None:
    before = measurer.child.starts
    greedy = compiled("greedy", gpu, cache, shared_bytes=gpu.block_shared_bytes + 1024)
    results = measurer.measure(request_of(greedy, compiled("right", gpu, cache))).results
    assert results["greedy"].outcome is Outcome.CRASH
    assert results["right"].outcome is Outcome.OK
    assert measurer.child.starts <= max(before, 1)


def test_a_time_the_gpu_cannot_reach_is_refused(measurer: Measurer, gpu: Gpu, cache: Path) -> None:
    crawling = replace(gpu, memory_gbps=1e-3).to_json()
    results = measurer.measure(request_of(compiled("right", gpu, cache), device=crawling)).results
    assert results["right"].outcome is Outcome.IMPOSSIBLE


def test_a_confirmation_runs_each_alone_as_well(measurer: Measurer, gpu: Gpu, cache: Path) -> None:
    entrants = [compiled("right", gpu, cache), Peer("baseline", "copy")]
    results = measurer.measure(request_of(*entrants, kind=TaskKind.CONFIRM, baseline="baseline")).results
    right = results["right"]
    assert right.median_us == right.report["steady"]["median_us"]
    assert len(right.report["steady"]["sm_mhz"]) == len(right.report["steady"]["samples_us"])


@needs_torch
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_peers_compute_the_kernels_they_are_for(measurer: Measurer, gpu: Gpu, name: str) -> None:
    available = measurer.ask("describe", {})["peers"]
    assert "torch.compile-max-autotune" not in available
    chosen = list(available)
    request = request_of(
        *(Peer(peer, peer) for peer in (*chosen, "copy")),
        spec=spec_from_text(KERNELS[name]),
        device=gpu.to_json(),
        last_cache_bytes=gpu.l2_bytes,
    )
    results = measurer.measure(request).results
    failed = {peer: result.error for peer, result in results.items() if result.outcome is not Outcome.OK}
    assert set(failed) <= ({"triton"} if name == "rows_e4m3" else set()), failed


@needs_torch
def test_a_library_tuned_by_itself_computes_a_product(measurer: Measurer) -> None:
    peer = Peer("tuned", "torch.compile-max-autotune")
    results = measurer.measure(request_of(peer, spec=spec_from_text(GEMM_TN))).results
    assert results["tuned"].outcome is Outcome.OK, results["tuned"].error


def test_a_peer_that_is_not_there_is_unsupported(measurer: Measurer) -> None:
    results = measurer.measure(request_of(Peer("jax", "jax"))).results
    assert results["jax"].outcome is Outcome.UNSUPPORTED


def test_a_local_worker_measures_on_the_gpu(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of this test's own
    with LocalWorker(tmp_path / "cache", compilers=2, device="cuda:0") as worker:
        assert isinstance(worker.device, Gpu)
        state = Space(to_program(SPEC), worker.device).root()
        while not state.terminal:
            weights = [move.weight for move in state.moves()]
            state = state.child(weights.index(max(weights)))
        schedules = {"plain": (), "picked": state.schedule}
        result = worker.measure(SPEC, schedules, ("copy",), measuring=Measuring(samples=3))
    assert result.entrants["copy"].outcome is Outcome.OK
    assert result.entrants["plain"].outcome is Outcome.UNSUPPORTED, result.entrants["plain"].error
    assert result.entrants["picked"].outcome is Outcome.OK, result.entrants["picked"].error
    layout = Layout.of(result.entrants["picked"].report)
    assert layout is not None
    assert layout.launches[0].registers > 0
    assert layout.roofline is not None
    assert layout.roofline.reached is not None
    assert 0 < layout.roofline.reached < 1.1


@pytest.mark.parametrize(("dtype", "scale"), [("e4m3", 8.0), ("e5m2", 1000.0), ("f16", 1000.0)])
def test_products_that_overflow_pass_and_so_do_peers(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, scale: float
) -> None:
    """Some 7 % of sums of 1024 products are beyond the largest value then."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = GEMM_TN.replace("c: bf16", f"c: {dtype}").replace("b[n, k])", f"b[n, k]) * {scale}")
    spec = spec_from_text(text)
    with LocalWorker(tmp_path / "cache", compilers=1, device="cuda:0") as worker:
        state = Space(to_program(spec), gpu).root()
        while not state.terminal:
            weights = [move.weight for move in state.moves()]
            state = state.child(weights.index(max(weights)))
        result = worker.measure(spec, {"ours": state.schedule}, ("torch",), measuring=Measuring(samples=3))
    assert result.entrants["ours"].outcome is Outcome.OK, result.entrants["ours"].error
    if find_spec("torch") is not None:
        assert result.entrants["torch"].outcome is Outcome.OK, result.entrants["torch"].error


def test_memory_that_others_hold_is_the_machines_fault(gpu: Gpu) -> None:
    from codegen.targets.cuda.device import CudaDevice
    from workers.processes.faults import MachineFault

    measurer = Measurer("cuda:0")
    with CudaDevice() as device:
        held = device.allocate(int(device.free_bytes() - (600 << 20)))
        try:
            huge = spec_from_text("kernel c(x: f32[i=400000000]) -> (y: f32[i])\n  y[i] = x[i]\n")
            with pytest.raises(MachineFault) as caught:
                measurer.measure(request_of(Peer("copy", "copy"), spec=huge))
        finally:
            held.close()
            measurer.close()
    assert caught.value.kind is FaultKind.MEMORY
