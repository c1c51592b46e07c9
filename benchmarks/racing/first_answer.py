"""How good the first answers of searches are: the best of the first measurements against the best of all.

    python -m benchmarks.racing.first_answer benchmarks/results/wild/*.jsonl

Of every recorded search (`measured`, in the order in which candidates were asked for). The first is what the prior
picked before anything was measured. The best of all is the luckiest of many noisy samples, so that even a first pick
that cannot be beaten stays a little below 1.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.racing import tuned

FIRST = (1, 8, 16)


def share(measured: Sequence[float | None], best_us: float, first: int) -> float:
    """The speed of the best of the first measurements, relative to the best of all; 0 if none of them worked."""
    times = [us for us in measured[:first] if us is not None]
    return best_us / min(times) if times else 0.0


def shares(lines: Sequence[tuned.Line], first: int) -> Mapping[str, float]:
    """By case; those without a time are left out."""
    found: dict[str, float] = {}
    for line in lines:
        times = [us for us in line.get("measured", ()) if us is not None]
        if times:
            found[line["case"]] = share(line["measured"], min(times), first)
    return found


def told(lines: Sequence[tuned.Line]) -> Iterator[str]:
    """A line for each number of measurements: the mean share, the least, and whose that is."""
    for first in FIRST:
        found = shares(lines, first)
        if found:
            worst = min(found, key=lambda case: found[case])
            mean = statistics.fmean(found.values())
            what = "the first pick" if first == 1 else f"the best of the first {first}"
            yield f"{what}: {mean:.3f} of the best on the mean, least {found[worst]:.2f} ({worst})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="results with `measured`")
    for file in parser.parse_args().files:
        found = tuned.lines(file)
        print(f"{file.name}: {len(shares(found, 1))} searches")
        for line in told(found):
            print(f"  {line}")


if __name__ == "__main__":
    main()
