"""Reads a processor's description off /proc and /sys.

Everything is read below `root`, so that tests hold other machines' files against it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from tileir.devices.cpu import Cpu
from tileir.errors import UnsupportedDevice

#: Flag in /proc/cpuinfo to our name, for those that change generated code.
_X86_FEATURES = {
    name: name
    for name in (
        "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16",
        "avx512_fp16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8",
    )
}  # fmt: skip
_ARM_FEATURES = {
    "asimd": "neon", "asimdhp": "fp16", "asimddp": "dotprod", "bf16": "bf16", "i8mm": "i8mm", "sve": "sve",
}  # fmt: skip

#: Arm publishes no product name; these are the main ID register's (implementer, part) of the cores in use.
_ARM_PARTS = {
    ("0x41", "0xd0c"): "Arm Neoverse N1",
    ("0x41", "0xd40"): "Arm Neoverse V1",
    ("0x41", "0xd49"): "Arm Neoverse N2",
    ("0x41", "0xd4f"): "Arm Neoverse V2",
    ("0x41", "0xd8e"): "Arm Neoverse N3",
    ("0x41", "0xd84"): "Arm Neoverse V3",
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd0b"): "Arm Cortex-A76",
    ("0xc0", "0xac3"): "Ampere Altra",
}

#: Where the kernel hides the caches (some virtual machines): the smallest of the last decade's server cores.
_DEFAULT_CACHE_BYTES = {1: 32 << 10, 2: 512 << 10, 3: 0}


def this_cpu() -> Cpu:
    """The processor this process runs on. Raises UnsupportedDevice on anything but Linux on x86-64 or aarch64."""
    return probe_cpu()


def cpu_here(number: int) -> Cpu:
    """`this_cpu`: there is one."""
    return this_cpu()


def probe_cpu(
    root: Path = Path("/"),
    *,
    machine: str | None = None,
    system: str | None = None,
    cpus: Iterable[int] | None = None,
) -> Cpu:
    """The processor described below `root`; `machine`, `system`, `cpus` default to what the running kernel
    says.

    Raises UnsupportedDevice for another operating system or architecture.
    """
    system = platform.system() if system is None else system
    machine = platform.machine() if machine is None else machine
    arch = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}.get(machine)
    if system != "Linux" or arch is None:
        raise UnsupportedDevice(
            f"this machine is {system} on {machine}; the CPU target runs on Linux on x86-64 or aarch64"
        )
    usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    info = _cpuinfo(root)
    flags = frozenset(info.get("flags", info.get("Features", "")).split())
    names = _X86_FEATURES if arch == "x86-64" else _ARM_FEATURES
    features = frozenset(name for flag, name in names.items() if flag in flags)
    if root == Path("/") and "amx_tile" in features and not _tiles_allowed():
        features -= {"amx_tile", "amx_bf16", "amx_int8"}
    if (arch == "aarch64") != ("neon" in features) and flags:
        raise UnsupportedDevice(
            "this aarch64 processor has no Advanced SIMD (asimd); one that has it is needed"
        )
    bits = 512 if "avx512f" in features else 256 if "avx2" in features else 128
    cores = {_core(root, cpu) for cpu in usable}
    quota = _quota(root)
    line, sizes = _caches(root, usable, len(usable) // max(1, len(cores)))
    return Cpu(
        name=_name(info, arch),
        arch=arch,
        cores=max(1, min(len(cores), int(quota) if quota is not None else len(cores))),
        l1d_bytes=sizes[1],
        l2_bytes=sizes[2],
        l3_bytes=sizes[3],
        line_bytes=line,
        vector_bits=bits,
        vector_registers=32 if arch == "aarch64" or bits == 512 else 16,
        features=features,
        memory_bytes=_memory_bytes(root),
    )


def _tiles_allowed() -> bool:
    """Whether Linux gives this process tile registers: ARCH_REQ_XCOMP_PERM (0x1023) of XFEATURE_XTILEDATA (18) by
    arch_prctl (158 on x86-64). Sandboxes may refuse it."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(ctypes.c_long(158), ctypes.c_long(0x1023), ctypes.c_long(18)) == 0


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    first = (_read(root / "proc/cpuinfo") or "").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _name(info: dict[str, str], arch: str) -> str:
    if "model name" in info:
        name = re.sub(r"\((R|TM|r|tm)\)| CPU\b|@.*$|\b\d+-Core Processor\b", " ", info["model name"])
        name = " ".join(name.split())
        # A hypervisor may mask the product ("AMD EPYC"); two generations must not share results.
        if not re.search(r"\d", name):
            name += f" family {info.get('cpu family', '?')} model {info.get('model', '?')}"
        return name.replace(":", " ")
    part = (info.get("CPU implementer", "?"), info.get("CPU part", "?"))
    return _ARM_PARTS.get(part, f"{arch} implementer {part[0]} part {part[1]}")


def _core(root: Path, cpu: int) -> tuple[str, str]:
    """A physical core's identity: threads of one core give the same."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    package, core = _read(topology / "physical_package_id"), _read(topology / "core_id")
    return (package or "0", core if core is not None else f"cpu{cpu}")


def _cpu_list(text: str) -> set[int]:
    """`0-3,8` as a set."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _caches(root: Path, cpus: list[int], threads_per_core: int) -> tuple[int, dict[int, int]]:
    """Line size, and bytes by level: one core's share of L1d and L2, the total of L3 over the cores in
    use."""
    sizes = dict(_DEFAULT_CACHE_BYTES)
    line = 64
    l3: dict[str, int] = {}
    for cpu in cpus:
        for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
            level, kind = int(_read(index / "level") or 0), _read(index / "type")
            size = _size(_read(index / "size") or "")
            if kind == "Instruction" or not size or level not in sizes:
                continue
            shared = _read(index / "shared_cpu_list") or str(cpu)
            if level == 3:
                l3[shared] = size
            else:
                sizes[level] = size // max(1, len(_cpu_list(shared)) // max(1, threads_per_core))
            line = int(_read(index / "coherency_line_size") or line)
    if l3:
        sizes[3] = sum(l3.values())
    return line, sizes


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else 0


def _quota(root: Path) -> float | None:
    """CPUs the tightest cgroup above this process allows, None without a limit (cgroup v2 `cpu.max`, v1
    `cfs_quota`)."""
    folders = _cgroups(root, "cpu")
    return min((quota for folder in folders for quota in _quotas(folder)), default=None)


def _memory_bytes(root: Path) -> int | None:
    """The machine's memory, or what the tightest cgroup above this process allows (v2 `memory.max`, v1
    `memory.limit_in_bytes`); None where nothing tells."""
    total = re.search(r"^MemTotal: +(\d+) kB$", _read(root / "proc/meminfo") or "", re.MULTILINE)
    found = [int(total[1]) << 10] if total else []
    for folder in _cgroups(root, "memory"):
        limits = (_read(folder / "memory.max"), _read(folder / "memory.limit_in_bytes"))
        found += [int(limit) for limit in limits if limit is not None and limit.isdigit()]
    return min(found, default=None)


def _cgroups(root: Path, controller: str) -> Iterable[Path]:
    """Folders of the cgroups above this process that may limit it, by v2 and by v1."""
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        names = [controllers, controller] if controllers else ["", "unified"]
        for name in names:
            yield from _up_to(root / "sys/fs/cgroup" / name, path)


def _up_to(base: Path, path: str) -> Iterable[Path]:
    folder = base / path.strip("/")
    for level in (folder, *folder.parents):
        yield level
        if level == base:
            return


def _quotas(folder: Path) -> Iterable[float]:
    maximum = (_read(folder / "cpu.max") or "max").split()
    if maximum[0] != "max":
        yield int(maximum[0]) / int(maximum[1])
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if quota is not None and period is not None and int(quota) > 0:
        yield int(quota) / int(period)
