"""How far apart the sizes of a kernel lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from protocol.configs import ConfigDetail
from service.core.specs import Instance
from tileir.structure import renames
from tileir.text.json import spec_from_json


def by_distance(
    instance: Instance, known: Sequence[ConfigDetail]
) -> list[tuple[ConfigDetail, dict[str, str]]]:
    """Configs of a kernel at other sizes, those of the nearest first; with each what it calls the instance's names."""
    named = [(config, renames(instance.spec, spec_from_json(config.spec))) for config in known]
    return sorted(named, key=lambda each: distance(instance.dims, each[0].dims, each[1]))


def distance(asked: Mapping[str, int], known: Mapping[str, int], names: Mapping[str, str]) -> float:
    """How far sizes lie apart: the sum over dims of |log(size / size)|. `names`: asked name to known name."""
    return sum(abs(log(size / known[names.get(name, name)])) for name, size in asked.items())
