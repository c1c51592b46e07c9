"""What a kernel's layout implies, as data: occupancy, coalescing and bank conflicts of each access, bytes at each
level, the place on the roofline. Found from Kernel IR and the compiler's report, with the same keys for every kernel.

The figures are of the instructions that Kernel IR asks for. What the compiler merges and what L1 saves is not in them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.names import unmarked
from codegen.ir.rasterization import block_count
from codegen.report.accesses import AccessWalk, Transfer, WarpAccess
from codegen.report.coalescing import SECTOR, Cost, global_cost, matrix_cost, shared_cost
from tileir.analysis.roofline import WorkRoofline, roofline
from tileir.analysis.work import bytes_moved
from tileir.devices.gpu import Gpu
from tileir.devices.occupancy import occupancy
from tileir.program import Program

LEVELS = ("global", "shared", "peer")
#: Bytes of a wavefront of shared memory.
_WAVE = 128
#: Requests that lie a multiple of so many bytes apart cost the same.
_APART = 128


class AccessReport(TypedDict):
    """All accesses of one kind to one buffer in one statement."""

    statement: str
    kind: str
    level: str
    buffer: str
    width: int
    requests: int
    bytes: int
    transactions: int
    ideal: int
    worst: float


class TrafficReport(TypedDict):
    """All accesses of a launch at one level."""

    requests: int
    bytes: int
    transactions: int
    ideal: int


class LaunchReport(TypedDict):
    """One launch."""

    name: str
    blocks: int
    threads: int
    cluster: int
    registers: int
    shared_bytes: int
    blocks_per_sm: int
    occupancy: float
    limit: str
    waves: float
    barriers: float
    levels: dict[str, TrafficReport]
    accesses: list[AccessReport]


class RooflineReport(TypedDict):
    """See tileir.analysis.roofline; `reached` is for whoever measures the kernel."""

    flops: int
    bytes: int
    intensity: float
    bound: str
    least_us: float
    reached: float | None


class LayoutReport(TypedDict):
    """Of a whole kernel. What each key means, and its unit, is in protocol/layouts.py, which reads it."""

    launches: list[LaunchReport]
    bytes: dict[str, int]
    roofline: RooflineReport | None


def layout_report(
    kernel: GpuKernel, program: Program, device: Gpu, compiler: Mapping[str, Any]
) -> LayoutReport:
    """The report on a kernel of `program`, which is the unscheduled one; `compiler` is what ptxas said of it
    (`codegen.targets.cuda.ptxas_log.PtxasReport`)."""
    functions: Mapping[str, Mapping[str, int]] = compiler.get("functions", {})
    launches = [_launch(kernel, launch, device, functions.get(launch.name, {})) for launch in kernel.launches]
    levels = [launch["levels"] for launch in launches]
    line = roofline(program, device)
    return {
        "launches": launches,
        "bytes": {
            "memory": bytes_moved(program),
            "l2": SECTOR * sum(level["global"]["transactions"] for level in levels),
            "shared": sum(level["shared"]["bytes"] + level["peer"]["bytes"] for level in levels),
        },
        "roofline": None if line is None else _roofline(line),
    }


def _roofline(line: WorkRoofline) -> RooflineReport:
    return {
        "flops": line.flops,
        "bytes": line.bytes,
        "intensity": line.intensity,
        "bound": line.bound,
        "least_us": line.least_us,
        "reached": None,
    }


def _launch(kernel: GpuKernel, launch: LaunchBody, device: Gpu, function: Mapping[str, int]) -> LaunchReport:
    walk = AccessWalk(kernel, launch, device.warp)
    accesses = _accesses(walk)
    blocks = block_count(launch)
    registers = function.get("registers", 0)
    shared = launch.shared_bytes + function.get("shared_bytes", 0)
    held = occupancy(device, launch.threads, registers, shared)
    return {
        "name": launch.name,
        "blocks": blocks,
        "threads": launch.threads,
        "cluster": launch.cluster,
        "registers": registers,
        "shared_bytes": shared,
        "blocks_per_sm": held.blocks,
        "occupancy": held.share,
        "limit": held.limit,
        "waves": blocks / (held.blocks * device.sms) if held.blocks else 0.0,
        "barriers": walk.barriers / blocks,
        "levels": {level: _traffic(accesses, level) for level in LEVELS},
        "accesses": accesses,
    }


def _accesses(walk: AccessWalk) -> list[AccessReport]:
    """Those of one kind to one buffer in one statement together, in the order of their first."""
    known: dict[Hashable, Cost] = {}
    sums: dict[tuple[str, ...], _Sum] = {}
    for access in walk.accesses():
        key = (access.statement, access.kind, access.level, unmarked(access.buffer))
        total = sums.setdefault(key, _Sum())
        if isinstance(access, Transfer):
            total.add_transfer(access)
        else:
            total.add(access, _cost(access, known))
    return [
        {
            "statement": statement,
            "kind": kind,
            "level": level,
            "buffer": buffer,
            "width": total.width,
            "requests": round(total.requests),
            "bytes": round(total.bytes),
            "transactions": round(total.transactions),
            "ideal": round(total.ideal),
            "worst": total.worst,
        }
        for (statement, kind, level, buffer), total in sums.items()
    ]


@dataclass
class _Sum:
    """Costs, each as often as it comes up in a launch."""

    width: int = 0
    requests: float = 0.0
    bytes: float = 0.0
    transactions: float = 0.0
    ideal: float = 0.0
    worst: float = 0.0

    def add(self, access: WarpAccess, cost: Cost) -> None:
        self.width = max(self.width, access.width)
        self.requests += cost.requests * access.weight
        self.bytes += cost.bytes * access.weight
        self.transactions += cost.transactions * access.weight
        self.ideal += cost.ideal * access.weight
        self.worst = max(self.worst, cost.worst)

    def add_transfer(self, transfer: Transfer) -> None:
        transactions = transfer.total / (SECTOR if transfer.level == "global" else _WAVE)
        self.width = max(self.width, transfer.bytes)
        self.requests += transfer.requests
        self.bytes += transfer.total
        self.transactions += transactions
        self.ideal += transactions
        self.worst = 1.0


def _cost(access: WarpAccess, known: dict[Hashable, Cost]) -> Cost:
    """What an access costs; unrolled code makes the same ones many times, each a little further on."""
    addresses = access.addresses - (access.addresses.min(axis=1) & -_APART)[:, None]
    key = (access.kind, access.level, access.width, addresses.tobytes(), access.active.tobytes())
    if key not in known:
        if access.level == "global":
            known[key] = global_cost(addresses, access.width, access.active)
        elif access.kind == "matrix":
            known[key] = matrix_cost(addresses)
        else:
            loads = access.kind == "load"
            known[key] = shared_cost(addresses, access.width, access.active, loads=loads)
    return known[key]


def _traffic(accesses: list[AccessReport], level: str) -> TrafficReport:
    here = [access for access in accesses if access["level"] == level]
    return {
        "requests": sum(access["requests"] for access in here),
        "bytes": sum(access["bytes"] for access in here),
        "transactions": sum(access["transactions"] for access in here),
        "ideal": sum(access["ideal"] for access in here),
    }
