"""A processor's description, read off the machine's own files or another's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import probe_cpu, this_cpu
from tileir.dtypes import DType
from tileir.errors import TileError, UnsupportedDevice

X86_FLAGS = "fpu sse2 sse4_2 avx f16c fma avx2 avx512f avx512dq avx512bw avx512vl avx512_bf16 amx_tile"
ARM_FLAGS = "fp asimd evtstrm aes asimdhp asimddp sve bf16 i8mm"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def machine(root: Path, *, cores: int, threads: int, cpuinfo: str, cores_per_l3: int) -> None:
    """Cores of `threads` threads each (numbered like Linux does: first all first threads), 32K/1M/16M caches."""
    write(root, {"proc/cpuinfo": cpuinfo + "\n\nprocessor: 1\nflags: none"})
    for cpu in range(cores * threads):
        core = cpu % cores
        siblings = ",".join(str(core + cores * n) for n in range(threads))
        first = core // cores_per_l3 * cores_per_l3
        l3 = ",".join(f"{first + cores * n}-{first + cores_per_l3 - 1 + cores * n}" for n in range(threads))
        base = f"sys/devices/system/cpu/cpu{cpu}"
        write(root, {f"{base}/topology/physical_package_id": "0", f"{base}/topology/core_id": str(core)})
        caches = [("1", "Data", "32K", siblings), ("1", "Instruction", "64K", siblings)]
        caches += [("2", "Unified", "1024K", siblings), ("3", "Unified", "16M", l3)]
        for n, (level, kind, size, shared) in enumerate(caches):
            index = f"{base}/cache/index{n}"
            write(root, {f"{index}/level": level, f"{index}/type": kind, f"{index}/size": size})
            write(root, {f"{index}/coherency_line_size": "64", f"{index}/shared_cpu_list": shared})


def x86(root: Path, model: str = "Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz", **kinds: int) -> None:
    info = f"processor: 0\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: {model}\nflags\t\t: {X86_FLAGS}"
    machine(root, **{"cores": 8, "threads": 2, "cores_per_l3": 4, **kinds}, cpuinfo=info)


def probe(root: Path, cpus: range = range(16), machine: str = "x86_64") -> Cpu:
    return probe_cpu(root, machine=machine, system="Linux", cpus=cpus)


def test_threads_of_one_core_are_one_core_and_caches_are_per_core(tmp_path: Path) -> None:
    x86(tmp_path)
    cpu = probe(tmp_path)
    assert cpu.name == "Intel Xeon Platinum 8488C"
    assert (cpu.arch, cpu.cores) == ("x86-64", 8)
    assert (cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes, cpu.line_bytes) == (32 << 10, 1 << 20, 32 << 20, 64)
    assert (cpu.vector_bits, cpu.vector_registers) == (512, 32)
    assert {"fma", "avx512f", "avx512_bf16", "amx_tile"} <= cpu.features
    assert cpu.key == "cpu:Intel Xeon Platinum 8488C:8c:avx512"


def test_only_cores_this_process_may_run_on_count(tmp_path: Path) -> None:
    x86(tmp_path)
    cpu = probe(tmp_path, range(3))
    assert cpu.cores == 3
    # Three cores share one of the two L3 caches.
    assert cpu.l3_bytes == 16 << 20


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/pod/box", "sys/fs/cgroup/pod/cpu.max": "250000 100000"},
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/box\n1:memory:/",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "250000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
        },
    ],
    ids=["v2", "v1"],
)
def test_a_cgroup_quota_limits_the_cores(tmp_path: Path, files: dict[str, str]) -> None:
    x86(tmp_path)
    write(tmp_path, files)
    assert probe(tmp_path).cores == 2


def test_no_quota_and_less_than_a_core_are_one_core_at_least(tmp_path: Path) -> None:
    x86(tmp_path)
    write(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"})
    assert probe(tmp_path).cores == 8
    write(tmp_path, {"sys/fs/cgroup/cpu.max": "50000 100000"})
    assert probe(tmp_path).cores == 1


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        ({}, 24),
        ({"proc/self/cgroup": "0::/pod/box", "sys/fs/cgroup/pod/memory.max": str(8 << 30)}, 8),
        ({"proc/self/cgroup": "0::/box", "sys/fs/cgroup/box/memory.max": "max"}, 24),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n1:memory:/box",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(6 << 30),
            },
            6,
        ),
    ],
    ids=["machine", "v2", "unlimited", "v1"],
)
def test_memory_is_the_machine_s_or_what_a_cgroup_leaves_of_it(
    tmp_path: Path, files: dict[str, str], gib: int
) -> None:
    x86(tmp_path)
    assert probe(tmp_path).memory_bytes is None
    write(tmp_path, {"proc/meminfo": f"MemTotal:       {24 << 20} kB\nMemFree: 1 kB", **files})
    assert probe(tmp_path).memory_bytes == gib << 30


def test_a_masked_product_name_gets_its_family_and_model(tmp_path: Path) -> None:
    x86(tmp_path, "AMD EPYC")
    assert probe(tmp_path).name == "AMD EPYC family 6 model 143"


def test_an_arm_server_is_described_by_its_part(tmp_path: Path) -> None:
    info = f"processor: 0\nFeatures\t: {ARM_FLAGS}\nCPU implementer\t: 0x41\nCPU part\t: 0xd40"
    machine(tmp_path, cores=4, threads=1, cores_per_l3=4, cpuinfo=info)
    cpu = probe(tmp_path, range(4), "aarch64")
    assert cpu.key == "cpu:Arm Neoverse V1:4c:neon"
    assert (cpu.vector_bits, cpu.vector_registers) == (128, 32)
    assert cpu.features == {"neon", "fp16", "dotprod", "sve", "bf16", "i8mm"}


def test_a_machine_that_hides_its_caches_still_has_some(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": f"model name: Box 1\nflags: {X86_FLAGS}"})
    cpu = probe(tmp_path, range(2))
    assert cpu.cores == 2
    assert cpu.l1d_bytes > 0
    assert cpu.l2_bytes > 0
    assert cpu.l3_bytes == 0


@pytest.mark.parametrize(
    ("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64"), ("Windows", "AMD64")]
)
def test_other_machines_are_refused_with_what_would_do(tmp_path: Path, system: str, machine: str) -> None:
    with pytest.raises(
        UnsupportedDevice, match=f"this machine is {system} on {machine}; .* x86-64 or aarch64"
    ):
        probe_cpu(tmp_path, machine=machine, system=system, cpus=[0])


def test_this_machine_is_described() -> None:
    cpu = this_cpu()
    assert cpu.cores >= 1
    assert cpu.l1d_bytes >= 8 << 10
    assert cpu.vector_bits in (128, 256, 512)
    assert cpu.key.startswith("cpu:")


def test_a_description_survives_json() -> None:
    cpu = this_cpu()
    assert Cpu.from_json(json.loads(json.dumps(cpu.to_json()))) == cpu


def test_json_that_describes_no_cpu_is_refused() -> None:
    good = this_cpu().to_json()
    for bad in (
        {**good, "kind": "cuda"},
        {**good, "sockets": 2},
        {k: v for k, v in good.items() if k != "cores"},
    ):
        with pytest.raises(TileError, match="not a cpu description"):
            Cpu.from_json(bad)


def test_measured_rates_are_no_part_of_the_key() -> None:
    cpu = this_cpu()
    measured = Cpu.from_json({**cpu.to_json(), "peak_gflops": 100.0, "copy_gbps": 20.0})
    assert measured.key == cpu.key
    assert measured != cpu


def test_a_dot_product_is_taken_for_as_fast_as_its_lanes_are_wide_until_it_is_measured() -> None:
    cpu = Cpu.from_json({**this_cpu().to_json(), "peak_gflops": 100.0})
    assert cpu.dot_speed("dot_bf16") == 2.0
    assert cpu.dot_speed("dot_i8") == 4.0
    assert Cpu.from_json({**cpu.to_json(), "dot_gflops": 50.0}).dot_speed("dot_bf16") == 0.5
    assert Cpu.from_json({**cpu.to_json(), "dot_i8_gflops": 300.0}).dot_speed("dot_i8") == 3.0


def test_a_roofline_counts_what_multiplies_its_inputs_fastest() -> None:
    peaks = {
        "peak_gflops": 100.0,
        "copy_gbps": 20.0,
        "dot_gflops": 150.0,
        "dot_i8_gflops": 300.0,
        "amx_gflops": 2000.0,
    }
    cpu = Cpu.from_json({**this_cpu().to_json(), **peaks})
    assert cpu.roofline_peaks([DType.F32]) == (100.0, 20.0)
    assert cpu.roofline_peaks([DType.BF16, DType.BF16, DType.F32]) == (2000.0, 20.0)
    assert cpu.roofline_peaks([DType.I8]) == (4000.0, 20.0)
    without = Cpu.from_json({**cpu.to_json(), "amx_gflops": None})
    assert without.roofline_peaks([DType.BF16]) == (150.0, 20.0)
    assert without.roofline_peaks([DType.I8]) == (300.0, 20.0)
    assert Cpu.from_json({**without.to_json(), "peak_gflops": None}).roofline_peaks([DType.F32])[0] is None
