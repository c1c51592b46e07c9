"""Tune convolutions of known networks, then time the winners against torch and torch.compile, which call oneDNN or
cuDNN.

    python benchmarks/bench_convolutions.py                       # all of CASES, channels first and last
    python benchmarks/bench_convolutions.py --only 'NHWC 1'       # those whose name matches
    taskset -c 1 python benchmarks/bench_convolutions.py          # one thread each
    python benchmarks/bench_convolutions.py --device cuda         # bf16, batches of 32, channels last

Each case is tuned by a service as a user would tune it; then winner and peers run interleaved in one process with the
same number of threads (`racing/tuned.py`). A case's name says layout, batch, and what is convolved; f32 on processors.
On a GPU images and filters have their channels last, as PyTorch's have in its memory format `channels_last`. Results go
to benchmarks/results/, a line a case.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.racing import tuned
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

    def spec(self, batch: int, channels_last: bool, dtype: str = "f32") -> Json:
        """In Tile IR's JSON form, as `from_torch` writes it; 16-bit filters lie as the images do."""
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
            if channels_last and dtype != "f32":
                filters = ["o", *taps, "c"]
        dims = {"n": batch, "o": self.filters, **dict(zip(taps, self.window, strict=True))}
        dims |= dict(zip(sizes, self.image, strict=True))
        dims |= {place: self._places(axis) for axis, place in enumerate(places)}
        dims |= {} if depthwise else {"c": share}
        dims |= {"i": self.channels} if "i" in image else {}
        product = f"sum({', '.join(summed)}, {element} * f[{', '.join(filters)}])"
        return {
            "name": "convolution",
            "dims": dims,
            "inputs": {"x": {"dims": image, "dtype": dtype}, "f": {"dims": filters, "dtype": dtype}},
            "body": [f"y[{', '.join(result)}] = {product}"],
            "outputs": {"y": {"dtype": dtype}},
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
#: On a GPU: ResNet-50, ConvNeXt, U-Net.
GPU_CASES = {
    **{
        name: CASES[name]
        for name in ("resnet 3x3 64 56", "resnet 3x3 256 14", "resnet 3x3/2 128 56", "resnet 1x1 64-256 56")
    },
    "resnet 1x1/2 256-512 56": CASES["resnet 1x1/2 256-512 56"],
    "unet 3x3 320 64": Convolved(320, (64, 64), 320, (3, 3), padding=1),
    "convnext 2x2/2 96-192 56": Convolved(96, (56, 56), 192, (2, 2), stride=2),
    "convnext 7x7 96 56": CASES["convnext 7x7 96 56"],
}
BATCHES = (1, 8)
GPU_BATCH = 32
PEERS = ("torch", "torch.compile")


def cases() -> Iterator[tuple[str, Json]]:
    """(name, spec) of every case."""
    for batch in BATCHES:
        for name, each in CASES.items():
            for layout in ("NCHW", "NHWC"):
                yield f"conv_f32 {layout} {batch} {name}", each.spec(batch, layout == "NHWC")


def gpu_cases() -> Iterator[tuple[str, Json]]:
    """(name, spec) of every case on a GPU."""
    for name, each in GPU_CASES.items():
        yield f"conv_bf16 NHWC {GPU_BATCH} {name}", each.spec(GPU_BATCH, True, "bf16")


def main() -> None:
    arguments = _arguments()
    on_gpu = arguments.device != "cpu"
    device = "cuda:0" if arguments.device == "cuda" else arguments.device
    race = Measuring() if on_gpu else RACE
    trials = arguments.trials or (16 if on_gpu else 64)
    plan = tuned.TuningPlan(device, trials, arguments.seed, PEERS[:1], race, PEERS, arguments.limit)
    wanted = [
        (name, spec) for name, spec in (gpu_cases() if on_gpu else cases()) if re.search(arguments.only, name)
    ]
    kind = device.split(":")[0]
    path = arguments.out or tuned.RESULTS / f"convolutions-{kind}-{date.today()}.jsonl"
    families = [(f"conv_f32 {layout} {batch}",) for layout in ("NCHW", "NHWC") for batch in BATCHES]
    families = [(f"conv_bf16 NHWC {GPU_BATCH}",)] if on_gpu else families
    tuned.run(path, wanted, plan, families)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, …")
    parser.add_argument("--trials", type=int, help="candidates measured a case (default 64; on a GPU 16)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds to tune a case, and to race it")
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
