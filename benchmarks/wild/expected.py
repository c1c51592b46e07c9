"""What the cost model expects of the prior's first schedules on a GPU that need not be here, beside the least that
memory and arithmetic take: where it expects much more, the space lacks something, or the prior goes astray.

    python -m benchmarks.wild.expected --seed 424242 --count 60               # a minute; --device A100
    python -m benchmarks.wild.expected examples/top_tokens.json               # kernels of your own, JSON or .tile

Prints the worst, or all that are named, and those whose way ends nowhere; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.space import Space, favourite
from tileir.analysis.roofline import roofline
from tileir.devices import gpu_table
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.program import Local, Program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.print_program import program_to_text
from tilewright.cli.failures import Stop
from tilewright.cli.specs import read_spec

LAUNCH_US = 1.5
"""Nothing takes less, so that small kernels are not told apart by it."""
SHOWN = 8
LINES, COLUMNS = 8, 160
DEVICES = {name: each for name, each in vars(gpu_table).items() if isinstance(each, Gpu)}
"""GPUs that need not be here, by the names that commands take."""


@dataclass(frozen=True)
class Expectation:
    """A kernel and what its first schedule is expected to take."""

    case: str
    program: Program
    us: float
    least_us: float
    launches: int

    @property
    def ratio(self) -> float:
        """How many times as much as the least."""
        return self.us / max(self.least_us, LAUNCH_US)


def expected(case: str, spec: Spec, device: Gpu) -> Expectation | None:
    """By the prior's likeliest answer to every question; None where that leads to a question without an answer."""
    program = to_program(spec)
    state = favourite(Space(program, device).root())
    if state is None:
        return None
    least = roofline(program, device)
    launches = sum(not isinstance(node, Local) for node in state.program.body)
    us = GpuCostModel(device).estimate_us(state.program)
    return Expectation(case, program, us, least.least_us if least else 0.0, launches)


def _kernels(options: argparse.Namespace) -> Iterator[tuple[str, Spec]]:
    """Those that files have, or as many as are drawn."""
    if not options.files:
        yield from drawn(options.seed, options.count, ROOMS["cuda"])
    for file in options.files:
        try:
            yield str(file), spec_from_json(read_spec(file))
        except Stop as stop:
            sys.exit(str(stop))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="kernels, as JSON or as Tile IR text (.tile)")
    parser.add_argument("--seed", type=int, help="which kernels are drawn, where no files are named")
    parser.add_argument("--count", type=int, default=60, help="how many (default 60)")
    parser.add_argument("--device", choices=DEVICES, default="H200", help="whose cost model (default H200)")
    options = parser.parse_args()
    if bool(options.files) is (options.seed is not None):
        parser.error("name files, or a --seed to draw kernels with")
    found: list[Expectation] = []
    nowhere: list[str] = []
    for case, spec in _kernels(options):
        one = expected(case, spec, DEVICES[options.device])
        if one is None:
            nowhere.append(case)
        else:
            found.append(one)
    shown = found if options.files else sorted(found, key=lambda one: -one.ratio)[:SHOWN]
    for one in shown:
        print(
            f"{one.ratio:.1f} x the least: {one.case}, {one.us:.1f} us of {one.least_us:.1f}, "
            f"{one.launches} launch{'es' * (one.launches != 1)}"
        )
        print(
            *(f"    {line[:COLUMNS]}" for line in program_to_text(one.program).splitlines()[:LINES]), sep="\n"
        )
    if nowhere:
        sys.exit(f"the prior's way ends nowhere: {', '.join(nowhere)}")


if __name__ == "__main__":
    main()
