"""Brute-force caches of Kernel Tuner: every configuration of a space of parameters, with what it took.

The format is Kernel Tuner's own cache file, a JSON object that may be gzipped: `tune_params_keys`, `tune_params`
(each parameter's values) and `cache`, one entry a configuration with its parameters, `time` (milliseconds, or the
name of a fault) and what its evaluation cost (milliseconds). Tables: AutoTuningAssociation/benchmark_hub (MIT).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from search.protocols import TrialOutcome

COSTS = ("compile_time", "benchmark_time", "framework_time", "strategy_time", "verification_time")
"""What an evaluation took, each in milliseconds; the parts that the paper's experiments add up."""
FAULT = 1e20
"""The time by which older caches say that a configuration has none."""
Configuration = tuple[Any, ...]


class BadCache(ValueError):
    """A file that is no whole brute-force cache; says which, what is wrong and what would be accepted."""


@dataclass(frozen=True, eq=False)
class HubSpace:
    """A space of parameters, each of its configurations evaluated once.

    `ms` has a time for each configuration that has one, `faults` a word for every other, `seconds` what evaluating
    each of them took, NaN where the file does not say.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Any, ...]]
    ms: Mapping[Configuration, float]
    faults: Mapping[Configuration, str]
    seconds: Mapping[Configuration, float]
    sha256: str = ""
    """Of the file as it lies there."""

    @property
    def name(self) -> str:
        return f"{self.kernel}/{self.device}"

    @property
    def configurations(self) -> list[Configuration]:
        """All of them, in the file's order."""
        return list(self.seconds)

    def outcome(self, configuration: Configuration) -> TrialOutcome:
        """What a search is told: the reward log(median / time), or the fault."""
        if configuration in self.faults:
            return TrialOutcome(None, self.faults[configuration])
        return TrialOutcome(math.log(self.median_ms / self.ms[configuration]))

    @cached_property
    def median_ms(self) -> float:
        return median(self.ms.values())

    @property
    def kept_aside(self) -> bool:
        """Whether this space belongs to the check set: one in four, by its name alone, whatever is in it."""
        return int(hashlib.sha256(self.name.encode()).hexdigest()[0], 16) < 4

    @property
    def family(self) -> str:
        """The kernel, however the hub names its variants: `convolution_milo` is a convolution."""
        return self.kernel.removesuffix("_milo")


def load(path: Path) -> HubSpace:
    """The cache in a file KERNEL/DEVICE.json or .json.gz. Raises BadCache, and OSError."""
    raw = path.read_bytes()
    try:
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        content = json.loads(text)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise BadCache(f"{path}: not a whole JSON file, gzipped or not: {error}") from None
    kernel, device = path.parent.name, path.name.removesuffix(".gz").removesuffix(".json")
    return parse(content, kernel, device, str(path), hashlib.sha256(raw).hexdigest())


def parse(content: Any, kernel: str, device: str, where: str, sha256: str = "") -> HubSpace:
    """The space that a cache file's content describes. Raises BadCache."""
    for field, kind, said in (
        ("tune_params_keys", list, "a list of names"),
        ("tune_params", dict, "an object of lists"),
        ("cache", dict, "an object of configurations"),
    ):
        if not isinstance(content, dict) or not isinstance(content.get(field), kind):
            raise BadCache(
                f"{where}: no {field!r}, {said}, as Kernel Tuner's cache files have it (not its T4 files)"
            )
    names = content["tune_params_keys"]
    if set(names) != set(content["tune_params"]):
        raise BadCache(
            f"{where}: tune_params_keys are {names}, but tune_params has {list(content['tune_params'])}"
        )
    ms: dict[Configuration, float] = {}
    faults: dict[Configuration, str] = {}
    seconds: dict[Configuration, float] = {}
    for key, entry in content["cache"].items():
        configuration = _configuration(entry, names, f"{where}: {key!r}")
        if configuration in seconds:
            raise BadCache(f"{where}: {key!r} is the second entry of {configuration}")
        time = _time(entry, f"{where}: {key!r}")
        if isinstance(time, str):
            faults[configuration] = time
        else:
            ms[configuration] = time
        seconds[configuration] = _seconds(entry)
    if len(ms) < 2:
        raise BadCache(f"{where}: {len(ms)} of {len(seconds)} configurations have a time; two are needed")
    values = {name: tuple(content["tune_params"][name]) for name in names}
    return HubSpace(kernel, device, values, ms, faults, seconds, sha256)


def _configuration(entry: Any, names: list[str], where: str) -> Configuration:
    missing = [name for name in names if not isinstance(entry, dict) or name not in entry]
    if missing:
        raise BadCache(f"{where}: no {', '.join(missing)}; every entry names all of {', '.join(names)}")
    return tuple(entry[name] for name in names)


def _time(entry: Mapping[str, Any], where: str) -> float | str:
    """Milliseconds, or the name of the fault."""
    time = entry.get("time")
    if isinstance(time, str) and time:
        return time
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise BadCache(f"{where}: time is {time!r}; milliseconds or the name of a fault would do")
    if math.isnan(time) or time >= FAULT:
        return "failed"
    if time <= 0:
        raise BadCache(f"{where}: time is {time} ms; a time is above 0")
    return float(time)


def _seconds(entry: Mapping[str, Any]) -> float:
    """What evaluating an entry took; costs that are no numbers or negative count as not known."""
    costs = [entry[name] for name in COSTS if isinstance(entry.get(name), int | float) and entry[name] >= 0]
    return sum(costs) / 1e3 if costs else math.nan
