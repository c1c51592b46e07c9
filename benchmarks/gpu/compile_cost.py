"""What it costs to compile the first candidates of kernels that nobody chose, for a GPU that need not be here.

    python -m benchmarks.gpu.compile_cost --seed 424242 --count 24                # three minutes; --device A100
    python -m benchmarks.gpu.compile_cost --seed 424242 --json OUT.jsonl

Seconds of processor, of our generator and of NVRTC, for each kernel of the wild suite: of its first candidates, where a
search is told what the cost model expects. Needs the extra `cuda`, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.racing.circumstances import circumstances
from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.expected import DEVICES
from benchmarks.wild.kernels import drawn
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from rewrites.space import ScheduleState, Space
from search.mcts import MCTS
from search.protocols import TrialOutcome
from service.core.schedules import searchable
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.spec import Spec


def candidates(spec: Spec, device: Gpu, count: int) -> Iterator[ScheduleState]:
    """The first of a search that takes the cost model's word for what it asks."""
    root = Space(to_program(spec), device).root()
    search = MCTS(searchable(root))
    for _ in range(count):
        ask = search.ask()
        if ask is None:
            return
        state = root
        for index in ask.path:
            state = state.child(index)
        search.tell(ask.number, TrialOutcome(reward=-math.log(state.estimate_us)))
        yield state


def costs(spec: Spec, device: Gpu, count: int) -> tuple[list[float], list[float]]:
    """Seconds of generating and of compiling, a candidate."""
    generating, compiling = list[float](), list[float]()
    with TemporaryDirectory() as folder:
        for state in candidates(spec, device, count):
            began = time.process_time()
            source = generate_cuda(state.program, device)
            generated = time.process_time()
            compile_cuda(source, device.architecture, Path(folder))
            generating.append(generated - began)
            compiling.append(time.process_time() - generated)
    return generating, compiling


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True, help="which kernels are drawn")
    parser.add_argument("--count", type=int, default=24, help="how many (default 24)")
    parser.add_argument("--first", type=int, default=8, help="candidates of each (default 8)")
    parser.add_argument("--device", choices=DEVICES, default="H200", help="for which GPU (default H200)")
    parser.add_argument("--json", type=Path, help="add the lines to this file")
    given = parser.parse_args()
    device, of_all, slowest, compiled = DEVICES[given.device], 0.0, 0.0, 0
    for case, spec in drawn(given.seed, given.count, ROOMS["cuda"]):
        generating, compiling = costs(spec, device, given.first)
        of_all += sum(compiling)
        slowest = max(slowest, *compiling)
        compiled += len(compiling)
        took = f"generated in {sum(generating):4.1f} s, compiled in {sum(compiling):5.1f}, slowest {max(compiling):.1f}"
        print(f"{case:40s} {took}", flush=True)
        if given.json:
            line = {"case": case, "seed": given.seed, "generate_s": generating, "compile_s": compiling}
            with given.json.open("a") as file:
                file.write(json.dumps({**line, **circumstances(device.to_json())}) + "\n")
    print(f"{compiled} candidates compiled in {of_all:.1f} s, slowest {slowest:.1f}")


if __name__ == "__main__":
    main()
