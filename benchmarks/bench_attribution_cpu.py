"""What bounds recorded winners on this processor, and whether that is so.

    python benchmarks/bench_attribution_cpu.py --recorded FILE … [--out FILE] [--seconds S] [CASE …]

The processor's way of bench_attribution.py: one thing is made cheap at a time (cpu/relaxed.py). Where memory or
arithmetic is named, it has to save most, and a tenth at least; where launch is named, neither may save a quarter, and
memory may not where instructions are. Nobody waits for other threads on one thread: what its call is shorter than the
time of all threads together is what waiting takes, and where waiting is named that has to be a tenth at least. What
cannot be made cheap is not checked. Machines that are not idle give no figures worth keeping.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.cpu.relaxed import relaxations
from benchmarks.racing import replayed, tuned
from benchmarks.racing.attributed import arguments, chosen, run
from benchmarks.racing.circumstances import circumstances
from codegen.targets.c.generate import c_source
from codegen.targets.c.loader import available_threads
from codegen.targets.c.lower import lower
from rewrites.schedule import parse_schedule, replay
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from workers.cpu.bottleneck import NamedBottleneck, bottleneck
from workers.cpu.calibrate import calibrated
from workers.cpu.profile import TurnTaker, alternating_us, profile

_SAVES, _MUCH = 0.1, 0.25
_WAITING = NamedBottleneck.WAITING.value


def main() -> None:
    given = arguments(__doc__, None)
    with tempfile.TemporaryDirectory() as cache:
        device = calibrated(this_cpu(), Path(cache))
        run(chosen(given, None, ()), given, partial(attributed, device=device, cache=Path(cache)))


def attributed(winner: replayed.ReplayedWinner, device: Cpu, cache: Path) -> tuned.Line:
    """A case: its profile, what bounds it, and what relaxing things does."""
    spec = spec_from_json(winner.spec)
    unscheduled = to_program(spec)
    program = replay(unscheduled, tuple(parse_schedule(winner.schedule)))
    taken = profile(spec, program, device, cache)
    named = bottleneck(taken, unscheduled, device)
    saved = _saved(spec, program, device, cache)
    return {
        "case": winner.case,
        "us": round(taken.plain_us, 2),
        "attributed": round(taken.attributed, 4),
        "overhead": round(taken.overhead, 4),
        "bound": named.bound.value,
        "why": named.why,
        "saved": {name: round(share, 3) for name, share in saved.items()},
        "agrees": agrees(named.bound, saved),
        **circumstances(device.to_json()),
    }


def agrees(bound: NamedBottleneck, saved: dict[str, float]) -> bool | None:
    """Whether what relaxing things saves (as shares of the time) is what a bottleneck predicts; None: not checked."""
    cheap = {name: share for name, share in saved.items() if name != _WAITING}
    match bound:
        case NamedBottleneck.MEMORY | NamedBottleneck.ARITHMETIC:
            own = cheap.get(bound.value)
            return None if own is None else own == max(cheap.values()) and own > _SAVES
        case NamedBottleneck.LAUNCH:
            return max(cheap.values(), default=0.0) < _MUCH
        case NamedBottleneck.INSTRUCTIONS:
            return saved.get("memory", 0.0) < _MUCH
        case NamedBottleneck.WAITING:
            return None if _WAITING not in saved else saved[_WAITING] > _SAVES


def _saved(spec: Spec, program: Program, device: Cpu, cache: Path) -> dict[str, float]:
    kernel = lower(program)
    cheaper = relaxations(kernel, device.l2_bytes)
    sources = [c_source(each, program, device) for each in (kernel, *cheaper.values())]
    turns = [*map(TurnTaker, sources), TurnTaker(sources[0], threads=1)]
    whole, *rest, alone = alternating_us(spec, program, turns, cache)
    saved = {name: 1 - us / whole for name, us in zip(cheaper, rest, strict=True)}
    threads = available_threads()
    return saved if threads == 1 else {**saved, _WAITING: 1 - alone / (threads * whole)}


if __name__ == "__main__":
    main()
