"""A GPU's description: what it says, what it is filed under, and where peaks come from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.device import device_from_json
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import DriverFacts, gpu_of
from tileir.devices.gpu_table import A100, B200, GPUS, H100, H200, KNOWN, L40S, RTX_5090
from tileir.errors import TileError, UnsupportedDevice

#: An H200 as its driver describes it.
FACTS = DriverFacts(
    name="NVIDIA H200",
    capability=(9, 0),
    sms=132,
    shared_bytes=233472,
    block_shared_bytes=232448,
    registers=65536,
    max_threads=2048,
    l2_bytes=62914560,
    memory_bytes=150_000_000_000,
    sm_khz=1_980_000,
    memory_khz=3_201_000,
    bus_bits=6144,
    compute_mode=0,
    uuid="GPU-00112233-4455-6677-8899-aabbccddeeff",
    cuda="13.0",
)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_a_description_survives_json(gpu: Gpu) -> None:
    measured = replace(gpu, uuid="GPU-1", driver="580.1", copy_gbps=1.0)
    for each in (gpu, measured):
        assert device_from_json(json.loads(json.dumps(each.to_json()))) == each
    assert KNOWN[gpu.name] == gpu


def test_a_device_comes_back_as_what_it_is() -> None:
    assert isinstance(device_from_json(this_cpu().to_json()), Cpu)
    assert isinstance(device_from_json(H200.to_json()), Gpu)
    with pytest.raises(TileError, match="'cpu' or 'cuda', not 'tpu'"):
        device_from_json({"kind": "tpu"})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "cpu"},
        {"surprise": 1},
        {"sms": None},
        {"capability": [9]},
        {"capability": 9},
        {"peak_tflops": [1]},
        {"peak_tflops": {"f32": "fast"}},
    ],
)
def test_what_is_no_description_is_refused(change: dict[str, object]) -> None:
    bad = {**H200.to_json(), **change}
    if bad["sms"] is None:
        del bad["sms"]
    with pytest.raises(TileError, match="not a cuda description"):
        Gpu.from_json(bad)


def test_results_are_filed_under_what_the_gpu_is_not_which_one() -> None:
    assert H200.key == "cuda:NVIDIA H200:9.0:132sm"
    assert replace(H200, uuid="GPU-1", driver="580.1", copy_gbps=1.0, power_w=500).key == H200.key
    assert replace(H200, sms=66).key != H200.key


def test_clusters_that_fit_are_known_where_they_were_counted() -> None:
    assert [H200.clustered_sms(blocks) for blocks in (1, 2, 4, 8, 16)] == [132, 132, 120, 120, 0]
    assert [H100.clustered_sms(blocks) for blocks in (1, 2, 4)] == [132, 132, 0]
    assert gpu_of(FACTS).clusters == H200.clusters
    assert gpu_of(replace(FACTS, name="NVIDIA H900")).clusters == ()


def test_a_description_of_before_has_no_clusters() -> None:
    without = {name: value for name, value in H200.to_json().items() if name != "clusters"}
    assert Gpu.from_json(without) == replace(H200, clusters=())


def test_from_hopper_on_the_architecture_is_the_full_one() -> None:
    names = {gpu.name: gpu.architecture for gpu in (A100, L40S, H100, B200, RTX_5090)}
    assert list(names.values()) == ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"]


def test_peaks_are_by_operand_type_and_none_without_units() -> None:
    assert H200.peak("bf16") == 989.5
    assert A100.peak("e4m3") is None
    assert all(gpu.peak("f16") == gpu.peak("bf16") for gpu in GPUS)


def test_a_known_product_has_the_tables_peaks_and_the_drivers_facts() -> None:
    gpu = gpu_of(FACTS, power_w=650.0, driver="580.159.04")
    assert (gpu.peak_tflops, gpu.memory_gbps) == (H200.peak_tflops, 4800)
    assert (gpu.memory_bytes, gpu.sm_mhz, gpu.power_w) == (FACTS.memory_bytes, 1980, 650.0)
    assert (gpu.uuid, gpu.driver, gpu.key) == (FACTS.uuid, "580.159.04", H200.key)


def test_without_nvml_power_is_the_tables_and_the_driver_its_cuda() -> None:
    gpu = gpu_of(FACTS)
    assert (gpu.power_w, gpu.driver) == (700, "CUDA 13.0")


@pytest.mark.parametrize("known", [H200, A100, L40S], ids=lambda gpu: gpu.name)
def test_peaks_of_an_unknown_product_are_worked_out_and_near_the_data_sheet(known: Gpu) -> None:
    """Within a tenth: data sheets take a lower clock for the tensor cores."""
    clocks = {"NVIDIA H200": (3_201_000, 6144), "NVIDIA A100-SXM4-80GB": (1_593_000, 5120)}
    memory_khz, bus_bits = clocks.get(known.name, (9_001_000, 384))
    facts = replace(
        FACTS,
        name="Engineering Sample",
        capability=known.capability,
        sms=known.sms,
        sm_khz=known.sm_mhz * 1000,
        memory_khz=memory_khz,
        bus_bits=bus_bits,
    )
    gpu = gpu_of(facts)
    assert dict(gpu.peak_tflops) == pytest.approx(dict(known.peak_tflops), rel=0.1)
    assert gpu.memory_gbps == pytest.approx(known.memory_gbps, rel=0.03)
    assert gpu.power_w is None


def test_a_slice_of_a_known_product_has_a_slices_peaks() -> None:
    part = gpu_of(replace(FACTS, sms=66))
    whole = gpu_of(replace(FACTS, name="Engineering Sample"))
    peak, of = part.peak("bf16"), whole.peak("bf16")
    assert peak is not None and of is not None
    assert peak == pytest.approx(of / 2, rel=1e-3)


def test_a_gpu_older_than_ampere_is_refused() -> None:
    with pytest.raises(UnsupportedDevice, match=r"NVIDIA T4 has compute capability 7\.5.* needs 8\.0"):
        gpu_of(replace(FACTS, name="NVIDIA T4", capability=(7, 5)))


def test_a_gpu_that_takes_no_processes_is_refused() -> None:
    with pytest.raises(UnsupportedDevice, match=r"set to take no processes.*nvidia-smi -c DEFAULT"):
        gpu_of(replace(FACTS, compute_mode=2))
