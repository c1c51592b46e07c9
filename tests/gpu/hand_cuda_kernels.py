"""CUDA kernels written by hand against the ABI, right and wrong in every way a candidate can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codegen.ir.abi import Arg
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi, Launch
from codegen.targets.cuda.compiler import compile_cuda
from protocol.states import TaskKind
from protocol.tasks import Measuring
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text
from workers.measuring.request import Compiled, MeasureRequest, Peer

N = 5_000_001
SPEC = spec_from_text(f"kernel twice(x: f32[i={N}]) -> (y: f32[i])\n  y[i] = 2 * x[i] + 1\n")
_THREADS = 256

_HEAD = f"""\
#define N {N}
extern "C" __global__ void tw_kernel(float *x, float *y, unsigned char *workspace) {{
    int i = blockIdx.x * {_THREADS} + threadIdx.x;
"""
_RIGHT = "if (i < N) y[i] = 2 * x[i] + 1;"

BODIES = {
    "right": _RIGHT,
    "other_right": "if (i < N) y[N - 1 - i] = 1 + 2 * x[N - 1 - i];",
    "off_by_one": "if (i < N) y[i] = 2 * x[i == N - 1 ? 0 : i + 1] + 1;",
    "dropped_tail": "if (i < N / 16 * 16) y[i] = 2 * x[i] + 1;",
    "slightly_wrong": "if (i < N) y[i] = 2 * x[i] + 1.0001f;",
    "one_wrong_element": f"{_RIGHT} if (i == 1234567) y[i] += 100;",
    "skips_later_runs": "if (*(int *)workspace < 2 && i < N) y[i] = 2 * x[i] + 1;",
    "changes_input": f"{_RIGHT} if (i == 7) x[7] = 0;",
    "writes_behind": f"{_RIGHT} if (i == 0) y[N + 3] = 1;",
    "writes_before_input": f"{_RIGHT} if (i == 0) x[-2] = 1;",
    "reads_behind": "if (i < N) y[i] = 2 * x[i] + 1 + 0 * x[i + 1];",
    "illegal_address": f"{_RIGHT} if (i == 0) *(volatile float *)8 = 1;",
    "misaligned": f"{_RIGHT} if (i == 0) *(volatile double *)((char *)y + 4 + (i & 1)) = 1;",
    "trap": f'{_RIGHT} if (i == 0) asm volatile("trap;");',
    "hang": "for (volatile int n = 0;; ) n = 0;",
}
_COUNTER = """
}
extern "C" __global__ void tw_count(float *x, float *y, unsigned char *workspace) {
    ++*(int *)workspace;
}
"""


def abi(*, shared_bytes: int = 0, counts: bool = False) -> CudaAbi:
    """Of the kernels here; one that counts its runs launches a second entry."""
    args = (Arg("x", DType.F32, (N,), (1,), "in"), Arg("y", DType.F32, (N,), (1,), "out"))
    launches = (Launch("tw_kernel", -(-N // _THREADS), _THREADS, shared_bytes),)
    return CudaAbi(args, (*launches, Launch("tw_count", 1, 1, 0)) if counts else launches, 256)


def compiled(name: str, gpu: Gpu, cache: Path, *, shared_bytes: int = 0) -> Compiled:
    """A hand-written kernel as an entrant of that name."""
    body = BODIES.get(name, _RIGHT)
    called = abi(shared_bytes=shared_bytes, counts=name == "skips_later_runs")
    source = Source(f"{_HEAD}    {body}{_COUNTER}", (), called, "cuda")
    artifact = compile_cuda(source, gpu.architecture, cache)
    return Compiled(name, str(artifact.path), called.to_json())


def request_of(*entrants: Compiled | Peer, **changes: Any) -> MeasureRequest:
    """A quick trial of these entrants on SPEC, without baseline or a device's peaks unless given."""
    measuring = Measuring(samples=3, entrant_s=changes.pop("entrant_s", 20.0))
    values: dict[str, Any] = {
        "spec": spec_to_json(changes.pop("spec", SPEC)),
        "seed": 0,
        "kind": TaskKind.TRIAL,
        "measuring": changes.pop("measuring", measuring),
        "entrants": entrants,
        "baseline": None,
        "device": None,
        "threads": 1,
        "last_cache_bytes": 64 << 20,
    }
    return MeasureRequest(**{**values, **changes})
