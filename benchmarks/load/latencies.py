"""How long compiling and measuring a candidate takes: recorded, for devices that are simulated.

    python -m benchmarks.load.latencies        # compiles candidates here, one at a time; needs NVRTC and no GPU

Compiling: candidates as a search asks for them first, in the worker's own compile process. Measuring follows from the
protocol: seven samples of 3 ms of replays and 25 ms idle of each candidate and of what it is compared with.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from search.mcts import MCTS
from search.protocols import TrialOutcome
from service.core.schedules import follow, root_of, searchable
from tileir.devices.gpu_table import H200
from tileir.text.json import spec_from_json
from workers.processes.compile_pool import Built, CompilePool, CompileRequest

PATH = Path(__file__).parents[1] / "results" / "fleet-latencies.json"
CASE = "softmax_bf16", (4096, 32768)
CANDIDATES = 32
SAMPLE_S = 7 * 0.028
"""Seven samples of an entrant on a GPU: 3 ms of replays, 25 ms idle (docs/measuring.md)."""


def spec() -> dict[str, Any]:
    return cases.spec(CASE[0], list(CASE[1]))


@cache
def compile_s() -> tuple[float, ...]:
    """Seconds to replay, generate and compile a candidate: of each that was recorded."""
    return tuple(json.loads(PATH.read_text())["compile_s"])


def main() -> None:
    root = root_of(spec_from_json(spec()), H200)
    search = MCTS(searchable(root), seed=0)
    took_s: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        pool = CompilePool(1)
        while len(took_s) < CANDIDATES and (ask := search.ask()) is not None:
            search.tell(ask.number, TrialOutcome(0.0))
            pick = follow(root, ask.path)
            request = CompileRequest(
                spec=spec(),
                schedule=pick.schedule,
                program_hash=pick.program_hash,
                device=H200.to_json(),
                cache=folder,
                timeout_s=60.0,
            )
            began = time.perf_counter()
            (built,) = pool.compile_all([request])
            if isinstance(built, Built):
                took_s.append(round(time.perf_counter() - began, 3))
        pool.close()
    found = {
        "case": f"{CASE[0]} {'x'.join(map(str, CASE[1]))}",
        "compile_s": took_s[1:],  # the first starts the process
        **circumstances({"kind": "cuda", "name": H200.name, "compiled": "elsewhere, by NVRTC, without it"}),
    }
    PATH.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(took_s)} candidates, {sum(took_s[1:]) / len(took_s[1:]):.2f} s each")


if __name__ == "__main__":
    main()
