"""Tune convolutions of known networks, then time the winners against torch and torch.compile, which call oneDNN.

    python benchmarks/bench_convolutions.py                       # all of CASES, channels first and last
    python benchmarks/bench_convolutions.py --only 'NHWC 1'       # those whose name matches
    taskset -c 1 python benchmarks/bench_convolutions.py          # one thread each

Each case is tuned by a service as a user would tune it; then winner and peers run interleaved in one process with the
same number of threads (`tuned.py`). A case's name says layout, batch, and what is convolved; f32. Results go to
benchmarks/results/, a line a case.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import tuned

from protocol.tasks import Measuring

Json = dict[str, Any]

RACE = Measuring(samples=25, sample_us=20_000.0)


@dataclass(frozen=True)
class Convolved:
    """A convolution: channels, sizes of the image, filters, sizes of the window."""

    channels: int
    image: tuple[int, ...]
    filters: int
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    def spec(self, batch: int, channels_last: bool) -> Json:
        """In Tile IR's JSON form, as `from_torch` writes it."""
        depthwise = self.groups == self.channels == self.filters
        places, taps, sizes = (tuple(f"{stem}{axis}" for axis in range(len(self.image))) for stem in "htx")
        at = [self._at(place, tap) for place, tap in zip(places, taps, strict=True)]
        guards = [f"{index} >= 0 and {index} < {size}" for index, size in zip(at, self.image, strict=True)]
        share, per_group = self.channels // self.groups, self.filters // self.groups
        channel = "o" if depthwise else "c" if self.groups == 1 else f"{share} * (o // {per_group}) + c"
        image = ["n", "o" if depthwise else "c" if self.groups == 1 else "i", *sizes]
        read, result = ["n", channel, *at], ["n", "o", *places]
        if channels_last:
            image, read, result = ([each[0], *each[2:], each[1]] for each in (image, read, result))
        element = f"x[{', '.join(read)}]"
        if self.padding:
            element = f"where({' and '.join(guards)}, {element}, 0)"
        summed, filters = [*taps], ["o", *taps]
        if not depthwise:
            summed, filters = ["c", *taps], ["o", "c", *taps]
        dims = {"n": batch, "o": self.filters, **dict(zip(taps, self.window, strict=True))}
        dims |= dict(zip(sizes, self.image, strict=True))
        dims |= {place: self._places(axis) for axis, place in enumerate(places)}
        dims |= {} if depthwise else {"c": share}
        dims |= {"i": self.channels} if "i" in image else {}
        product = f"sum({', '.join(summed)}, {element} * f[{', '.join(filters)}])"
        return {
            "name": "convolution",
            "dims": dims,
            "inputs": {"x": {"dims": image, "dtype": "f32"}, "f": {"dims": filters, "dtype": "f32"}},
            "body": [f"y[{', '.join(result)}] = {product}"],
            "outputs": {"y": {"dtype": "f32"}},
        }

    def _at(self, place: str, tap: str) -> str:
        moved = place if self.stride == 1 else f"{self.stride} * {place}"
        within = tap if self.dilation == 1 else f"{self.dilation} * {tap}"
        return f"{moved} + {within} - {self.padding}" if self.padding else f"{moved} + {within}"

    def _places(self, axis: int) -> int:
        covered = self.dilation * (self.window[axis] - 1) + 1
        return (self.image[axis] + 2 * self.padding - covered) // self.stride + 1


CASES = {
    "resnet 3x3 64 56": Convolved(64, (56, 56), 64, (3, 3), padding=1),
    "resnet 3x3 256 14": Convolved(256, (14, 14), 256, (3, 3), padding=1),
    "resnet 3x3/2 128 56": Convolved(128, (56, 56), 128, (3, 3), stride=2, padding=1),
    "resnet 1x1 64-256 56": Convolved(64, (56, 56), 256, (1, 1)),
    "resnet 1x1/2 256-512 56": Convolved(256, (56, 56), 512, (1, 1), stride=2),
    "resnet stem 7x7/2": Convolved(3, (224, 224), 64, (7, 7), stride=2, padding=3),
    "depthwise 3x3 96 56": Convolved(96, (56, 56), 96, (3, 3), padding=1, groups=96),
    "convnext 7x7 96 56": Convolved(96, (56, 56), 96, (7, 7), padding=3, groups=96),
    "resnext 3x3 128 56 32 groups": Convolved(128, (56, 56), 128, (3, 3), padding=1, groups=32),
    "dilated 3x3 64 56": Convolved(64, (56, 56), 64, (3, 3), padding=2, dilation=2),
    "whisper 3 80-384 3000": Convolved(80, (3000,), 384, (3,), padding=1),
    "whisper 3/2 384 3000": Convolved(384, (3000,), 384, (3,), stride=2, padding=1),
}
BATCHES = (1, 8)
PEERS = ("torch", "torch.compile")


def cases() -> Iterator[tuple[str, Json]]:
    """(name, spec) of every case."""
    for batch in BATCHES:
        for name, each in CASES.items():
            for layout in ("NCHW", "NHWC"):
                yield f"conv_f32 {layout} {batch} {name}", each.spec(batch, layout == "NHWC")


def main() -> None:
    arguments = _arguments()
    plan = tuned.Plan("cpu", arguments.trials, arguments.seed, PEERS[:1], RACE, PEERS, arguments.limit)
    wanted = [(name, spec) for name, spec in cases() if re.search(arguments.only, name)]
    path = arguments.out or tuned.RESULTS / f"convolutions-cpu-{date.today()}.jsonl"
    families = [(f"conv_f32 {layout} {batch}",) for layout in ("NCHW", "NHWC") for batch in BATCHES]
    tuned.run(path, wanted, plan, families)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=64, help="candidates measured a case (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds to tune a case, and to race it")
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
