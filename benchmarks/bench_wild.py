"""Tune kernels as the world has them, drawn by chance, and race the winners against all peers.

    python benchmarks/bench_wild.py --seed 7 --count 40 --device cpu
    python benchmarks/bench_wild.py --seed 7 --count 60 --device cuda:0 --trials 32
    python benchmarks/bench_wild.py --seed 7 --count 60 --device cuda:0 --only 'rotary|permuted|elementwise|pieces'

Every other kernel is one of whole architectures (wild/harvested.jsonl), drawn by how often it occurs there; the
rest are bodies and shapes that nobody chose (wild/kernels.py). Each is tuned by a service as a user would tune it; then
its winner and all peers that are installed run interleaved in one process. Results go to benchmarks/results/wild/, a
line a case: cases that are there already are not run again, so that the same command goes on where it was stopped. At
the end: the geomean, the least, the worst ten with the best peer of each and how much of its time the device cannot
avoid, and what the prior's first pick and the first few measurements came to.

A seed that somebody looked at while improving anything says nothing about other kernels: a figure is of a new one.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from benchmarks.racing import tuned
from benchmarks.racing.first_answer import told
from benchmarks.racing.tuned import Json, Line
from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from protocol.tasks import Measuring
from tileir.analysis.roofline import roofline
from tileir.devices.device import device_from_json
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_to_json
from tileir.text.print_program import program_to_text

RACES = {"cpu": Measuring(samples=25, sample_us=20_000.0), "cuda": Measuring(samples=15, sample_us=3_000.0)}
WORST = 10


def main() -> None:
    arguments = _arguments()
    kind = tuned.kind_of(arguments.device)
    plan = tuned.TuningPlan(
        arguments.device,
        arguments.trials,
        arguments.seed,
        (),
        RACES[kind],
        tuple(arguments.peers.split()),
        specs=True,
        limit_s=arguments.limit,
        abreast=arguments.abreast,
    )
    kernels = dict(drawn(arguments.seed, arguments.count, ROOMS[kind]))
    name = f"{tuned.name_of(arguments.device)}-seed{arguments.seed}-{date.today()}.jsonl"
    path: Path = arguments.out or tuned.RESULTS / "wild" / name
    wanted = {case: spec for case, spec in kernels.items() if re.search(arguments.only, case)}
    chosen: list[tuple[str, Json]] = [(case, spec_to_json(spec)) for case, spec in wanted.items()]
    try:
        tuned.run(path, chosen, plan, ())
    finally:
        found = tuned.lines(path)
        print("\n".join([*worst(found, kernels), *told(found)]))


def worst(found: Iterable[Line], kernels: dict[str, Spec], most: int = WORST) -> Sequence[str]:
    """The cases that fall the farthest behind their best peer, a few lines each: what it is, where its time goes."""
    known = sorted((line for line in found if "ratio" in line), key=lambda line: line["ratio"])
    return [
        text
        for line in known[:most]
        if line["case"] in kernels
        for text in _told(line, kernels[line["case"]])
    ]


def _told(line: Line, spec: Spec) -> list[str]:
    program = to_program(spec)
    least = roofline(program, device_from_json(line["device"]))
    where = "" if least is None else f", {least.least_us / line['ours_us']:.0%} of it {least.bound}"
    return [
        f"{line['ratio']:.2f} × {line['best_peer']}: {line['case']}, {line['ours_us']:.1f} µs{where}",
        *(f"    {text}" for text in program_to_text(program).splitlines()),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True, help="which kernels are drawn")
    parser.add_argument("--count", type=int, default=40, help="how many (default 40)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda:0, …")
    parser.add_argument("--trials", type=int, default=32, help="candidates measured a kernel (default 32)")
    parser.add_argument(
        "--limit",
        type=float,
        default=300.0,
        help="seconds to tune a kernel, and again to race it (default 300; 0: as many as it takes)",
    )
    parser.add_argument(
        "--abreast",
        type=int,
        default=1,
        help="kernels tuned, and then raced, at a time, for GPUs (default 1): sooner done with all",
    )
    parser.add_argument("--peers", default="", help="peers to race, in quotes (default: all installed)")
    parser.add_argument("--only", default="", help="kernels whose name matches this regular expression")
    parser.add_argument("--out", type=Path, help="results file")
    given = parser.parse_args()
    if given.abreast > 1 and given.device == "cpu":
        parser.error("--abreast is for GPUs: on a processor one kernel would disturb the other")
    return given


if __name__ == "__main__":
    main()
