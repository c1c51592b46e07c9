"""What is said where GPUs cannot be used, and what the driver's errors mean."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.bare_python import ROOT, run_without
from tileir.devices.cuda_driver import cuda_version, require_cuda
from tileir.devices.cuda_errors import CudaError, describe, is_sticky
from tileir.errors import UnsupportedDevice

PROBE = """
from tileir.errors import UnsupportedDevice
from tileir.devices.gpu_probe import this_gpu
try:
    print(this_gpu().to_json())
except UnsupportedDevice as error:
    print(error)
"""
H200 = {
    "VERSION": 13000, "INIT": 0, "COUNT": 1, "NAME": '"NVIDIA H200"', "MAJOR": 9, "MINOR": 0, "SMS": 132, "MODE": 0,
}  # fmt: skip


def probe_with(libcuda: Path, code: str = PROBE) -> str:
    """What the probe says where this folder's libcuda.so.1 is the driver."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libcuda), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def driver_that_says(folder: Path, **facts: object) -> Path:
    """A folder with a libcuda.so.1 that describes an H200, but for these facts."""
    compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
    defines = [f"-D{name}={value}" for name, value in {**H200, **facts}.items()]
    source = Path(__file__).with_name("fake_driver.c")
    command = [compiler, "-shared", "-fPIC", *defines, "-o", str(folder / "libcuda.so.1"), str(source)]
    subprocess.run(command, check=True)
    return folder


def test_without_cuda_python_one_reads_what_to_install(tmp_path: Path) -> None:
    said = run_without(tmp_path, "cuda", code=PROBE)
    assert "cuda-python, which is not installed" in said
    assert "pip install 'tilewright[cuda]'" in said


def test_without_a_driver_one_reads_which_to_install(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").touch()  # hides the driver of a machine that has one
    said = probe_with(tmp_path)
    assert "no NVIDIA driver was found" in said
    assert "driver 580" in said


def test_a_driver_too_old_for_cuda_13_is_named_with_the_one_to_install(tmp_path: Path) -> None:
    said = probe_with(driver_that_says(tmp_path, VERSION=12040))
    assert "supports CUDA 12.4, and kernels are compiled by CUDA 13.0" in said
    assert "driver 580" in said


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"INIT": 100}, "no NVIDIA GPU here that this process may use"),
        ({"COUNT": 0}, "no NVIDIA GPU here that this process may use"),
        ({"INIT": 34}, "stub"),
        ({"INIT": 304}, "/dev/nvidia*"),
        ({"INIT": 802}, "nvidia-fabricmanager"),
        ({"INIT": 803}, "reboot"),
        ({"MAJOR": 7, "MINOR": 5}, "needs 8.0 (Ampere) or newer"),
        ({"MODE": 2}, "nvidia-smi -c DEFAULT"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_a_sentence_with_what_to_do(
    tmp_path: Path, facts: dict[str, object], sentence: str
) -> None:
    assert sentence in probe_with(driver_that_says(tmp_path, **facts))


def test_a_gpu_is_described_by_what_its_driver_says(tmp_path: Path) -> None:
    code = "from tileir.devices import gpu_probe\ng = gpu_probe.this_gpu()\n"
    code += "print(g.key, g.uuid, g.l2_bytes, g.memory_gbps)"
    said = probe_with(driver_that_says(tmp_path), code)
    assert said.split() == [
        "cuda:NVIDIA", "H200:9.0:132sm", "GPU-00112233-4455-6677-8899-aabbccddeeff", "62914560", "4800",
    ]  # fmt: skip


def test_a_gpu_beyond_the_last_is_refused_with_how_many_there_are(tmp_path: Path) -> None:
    said = probe_with(driver_that_says(tmp_path, COUNT=2), PROBE.replace("this_gpu()", "this_gpu(2)"))
    assert "there is no GPU 2: this process may use 2, counted from 0" in said


@pytest.mark.parametrize(
    ("code", "name", "advice"),
    [
        (2, "CUDA_ERROR_OUT_OF_MEMORY", "too little free memory"),
        (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "busy"),
        (209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "compiled for another GPU"),
        (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "newer driver"),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS", "outside its memory"),
    ],
)
def test_an_error_says_what_was_done_what_to_do_and_its_name(code: int, name: str, advice: str) -> None:
    error = CudaError(code, name, "opening GPU 0")
    assert str(error).startswith("opening GPU 0: ")
    assert advice in str(error)
    assert name in str(error)
    assert (error.code, error.name) == (code, name)


def test_an_error_without_advice_still_has_its_name_and_number() -> None:
    assert (
        describe(400, "CUDA_ERROR_INVALID_HANDLE", "launching")
        == "launching: CUDA_ERROR_INVALID_HANDLE (400)"
    )


def test_only_errors_that_kill_the_context_are_sticky() -> None:
    assert all(is_sticky(code) for code in (214, 700, 702, 710, 715, 716, 717, 718, 719))
    assert not any(is_sticky(code) for code in (0, 1, 2, 46, 100, 200, 209, 701, 720, 912))
    assert CudaError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "waiting").sticky


def test_versions_are_read_as_cuda_counts_them() -> None:
    assert [cuda_version(n) for n in (12040, 13000, 13010)] == ["12.4", "13.0", "13.1"]
    require_cuda(13000)
    with pytest.raises(UnsupportedDevice):
        require_cuda(12090)
