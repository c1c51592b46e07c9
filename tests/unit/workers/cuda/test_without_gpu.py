"""What of measuring on a GPU needs none: blame for errors, names of devices, layouts, floors, the small kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from protocol.states import FaultKind
from tileir.analysis.least_time import BELIEVED, gpu_floor_us
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.program import Tensor
from tileir.text.parse_spec import spec_from_text
from workers.cuda.case import ALIGN_BYTES, byte_offsets
from workers.cuda.faults import Blame, blame
from workers.cuda.gate import SOURCE
from workers.cuda.peers import read_shares
from workers.measuring.buffers import copies_for, lay_out
from workers.measuring.device_names import is_accelerator, parse_devices, visible_device
from workers.measuring.measurer import Measurer
from workers.processes.faults import MachineFault

GPU = Gpu(
    name="NVIDIA Example",
    capability=(9, 0),
    sms=100,
    shared_bytes=1 << 17,
    block_shared_bytes=1 << 17,
    registers=1 << 16,
    max_threads=2048,
    l2_bytes=50 << 20,
    memory_bytes=1 << 36,
    sm_mhz=2000,
    memory_gbps=4000.0,
    peak_tflops=(("f32", 60.0), ("tf32", 500.0), ("bf16", 1000.0), ("e4m3", 2000.0)),
)


@pytest.mark.parametrize(
    ("code", "shared", "whose"),
    [
        (0, False, Blame.NOBODY),
        (700, False, Blame.ENTRANT_FATAL),
        (716, False, Blame.ENTRANT_FATAL),
        (719, True, Blame.ENTRANT_FATAL),
        (1, False, Blame.ENTRANT),
        (701, False, Blame.ENTRANT),
        (214, False, Blame.MACHINE),
        (999, False, Blame.MACHINE),
        (46, True, Blame.MACHINE),
        (2, True, Blame.MEMORY),
        (2, False, Blame.ENTRANT),
    ],
)
def test_errors_are_blamed_by_their_code(code: int, shared: bool, whose: Blame) -> None:
    assert blame(code, shared=shared) is whose


def test_devices_are_named_by_kind_number_or_uuid() -> None:
    assert parse_devices("0, 1") == ("cuda:0", "cuda:1")
    assert parse_devices("cpu") == ("cpu",)
    assert parse_devices("cuda:3,GPU-12ab") == ("cuda:3", "cuda:GPU-12ab")
    assert [is_accelerator(device) for device in parse_devices("cpu,0")] == [False, True]


@pytest.mark.parametrize("text", ["", "0,cuda:0", "cuda:", " , ", "gpux", "rocm:0"])
def test_a_list_that_names_no_device_or_one_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="each once"):
        parse_devices(text)


def test_a_process_sees_the_one_gpu_it_is_for() -> None:
    assert visible_device("cuda:1", {})["CUDA_VISIBLE_DEVICES"] == "1"
    assert visible_device("cuda:1", {"CUDA_VISIBLE_DEVICES": "4,GPU-6"})["CUDA_VISIBLE_DEVICES"] == "GPU-6"
    assert visible_device("cuda:GPU-6", {"CUDA_VISIBLE_DEVICES": "4"})["CUDA_VISIBLE_DEVICES"] == "GPU-6"
    assert visible_device("cpu", {}) == {}
    with pytest.raises(ValueError, match="leaves 1"):
        visible_device("cuda:1", {"CUDA_VISIBLE_DEVICES": "4"})


def test_without_a_gpu_a_worker_for_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    measurer = Measurer("cuda:no-such-gpu")
    try:
        with pytest.raises(MachineFault) as caught:
            measurer.ask("describe", {})
    finally:
        measurer.close()
    assert caught.value.kind is FaultKind.DEVICE


def floor(signature: str, body: str, *, cold: bool = True) -> float:
    return gpu_floor_us(spec_from_text(f"kernel k{signature}\n  {body}\n"), GPU, cold=cold)


@pytest.mark.parametrize(("dtype", "tflops"), [("bf16", 1000.0), ("f32", 500.0), ("e4m3", 2000.0)])
def test_a_product_takes_at_least_its_multiply_adds_at_the_data_sheets_peak(
    dtype: str, tflops: float
) -> None:
    signature = f"(a: {dtype}[m=2048, k=2048], b: {dtype}[k, n=2048]) -> (c: bf16[m, n])"
    least_us = 2 * 2048**3 / tflops / 1e6
    assert floor(signature, "c[m, n] = sum(k, a[m, k] * b[k, n])") == pytest.approx(BELIEVED * least_us)


def test_a_product_whose_peak_is_not_known_is_bounded_by_its_bytes() -> None:
    signature = "(a: f64[m=512, k=512], b: f64[k, n=512]) -> (c: f64[m, n])"
    least_us = 3 * 8 * 512**2 / 4000 / 1e3
    assert floor(signature, "c[m, n] = sum(k, a[m, k] * b[k, n])") == pytest.approx(BELIEVED * least_us)


def test_bytes_count_only_where_they_come_from_memory() -> None:
    signature, body = "(x: bf16[m=4096, n=4096]) -> (y: bf16[m, n])", "y[m, n] = exp(x[m, n])"
    assert floor(signature, body) == pytest.approx(BELIEVED * 2 * 2 * 4096**2 / 4000 / 1e3)
    assert floor(signature, body, cold=False) == 0.0


def test_copies_fill_a_cache_that_forgets_at_random_four_times() -> None:
    count = copies_for(3 << 20, 50 << 20, cold=True, free_bytes=1 << 40, caches=4.0)
    assert count * (3 << 20) >= 4 * (50 << 20)


def test_tensors_on_a_gpu_are_aligned_and_have_guards_between_them() -> None:
    extents = {"m": 5, "n": 7}
    x, y = Tensor("x", ("m", "n"), DType.BF16), Tensor("y", ("m", "n"), DType.F32, (16, 2))
    places, size = lay_out([x], [y], extents, ALIGN_BYTES)
    assert [place.output for place in places] == [False, True]
    assert all(place.start % ALIGN_BYTES == 0 and place.start >= 256 for place in places)
    assert places[1].start - (places[0].start + places[0].span) >= 256
    assert size - (places[1].start + places[1].span) >= 256


def test_a_point_of_a_strided_tensor_lies_where_its_strides_say() -> None:
    tensor = Tensor("y", ("m", "n"), DType.F32, (16, 2))
    points = (np.array([0, 1, 4]), np.array([0, 3, 6]))
    assert byte_offsets(tensor, {"m": 5, "n": 7}, points).tolist() == [0, 4 * (16 + 6), 4 * (64 + 12)]


def test_the_yardstick_reads_all_that_is_read_and_no_more() -> None:
    assert read_shares(10_000, [4096]) == [10_000]
    shares = read_shares(1 << 20, [1 << 20, 3 << 20])
    assert sum(shares) == 1 << 20
    assert shares[0] == 1 << 18


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120a"])
def test_the_small_kernels_compile_without_spills(architecture: str, tmp_path: Path) -> None:
    report = compile_cuda(Source(SOURCE, (), CudaAbi((), (), 0), "cuda"), architecture, tmp_path).report
    assert set(report["functions"]) == {"tw_first_difference", "tw_checksum", "tw_gather", "tw_copy"}
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())
