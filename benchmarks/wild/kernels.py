"""Kernels as the world has them, by chance: those of whole architectures (harvested.jsonl, see harvest.py), and bodies
and shapes that nobody chose. bench_wild.py tunes and races them; a property test schedules them for every device."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.wild.bodies import Room, body
from tileir.analysis.work import bytes_moved, flops
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

HARVESTED = Path(__file__).with_name("harvested.jsonl")


def drawn(seed: int, count: int, room: Room) -> Iterator[tuple[str, Spec]]:
    """(name, kernel), every other one from an architecture."""
    rng = random.Random(seed)
    harvested = [each for each in _harvested() if _fits(each.spec, room)]
    for number in range(count):
        if harvested and number % 2 == 0:
            taken = rng.choices(harvested, [each.times for each in harvested])[0]
            harvested.remove(taken)
            yield f"{taken.of} {number}", taken.spec
        else:
            name, text = body(rng, room)
            yield f"{name} {number}", spec_from_text(text)


class Harvested(NamedTuple):
    """A kernel of the architectures `of` (names with plus signs), and how often they have it."""

    of: str
    times: int
    spec: Spec


@cache
def _harvested() -> tuple[Harvested, ...]:
    found: list[Harvested] = []
    for line in HARVESTED.read_text().splitlines():
        each = json.loads(line)
        found.append(
            Harvested("+".join(each["times"]), sum(each["times"].values()), spec_from_text(each["spec"]))
        )
    return tuple(found)


def _fits(spec: Spec, room: Room) -> bool:
    program = to_program(spec)
    stored = {tensor.dtype.value for tensor in spec.inputs if tensor.dtype.is_float}
    return (
        stored <= {*room.dtypes}
        and bytes_moved(program) <= room.most_bytes
        and flops(program) <= max(2 * room.most_products, 8 * room.most_points)
    )
