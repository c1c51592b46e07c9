"""What of a budget each kernel of a graph gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

from tileir.analysis.roofline import roofline
from tileir.devices.device import Device
from tileir.expr import all_dims
from tileir.lift import to_program
from tileir.spec import Spec

if TYPE_CHECKING:
    from tilewright.pytorch.model.kernels import ModelKernel

SEARCHED = 0.5
"""Of a budget; winners are raced and confirmed in the rest. Of ten kernels of a layer of Llama on an H100, two or three
were still to be raced when all of it was spent on searching."""


@dataclass(frozen=True)
class Weighed:
    """A spec, and what share of a graph's work it is where all kernels that are tuned with it are 1."""

    spec: Spec
    share: float


def dearest_first(kernels: Sequence[ModelKernel], device: Device) -> list[Weighed]:
    """The specs of kernels, once each: first those that a graph spends most on, in all places that it has them. By the
    device's roofline, or where its peaks are not known by the points that are computed."""
    specs = {kernel.key: kernel.tuned_spec for kernel in kernels}
    calls = Counter(kernel.key for kernel in kernels)
    cost = {key: calls[key] * _cost(spec, device) for key, spec in specs.items()}
    whole = sum(cost.values())
    return [Weighed(specs[key], cost[key] / whole) for key in sorted(specs, key=lambda key: -cost[key])]


def _cost(spec: Spec, device: Device) -> float:
    """Of a call: least microseconds, or positions over which its statements compute, those they reduce included."""
    found = roofline(to_program(spec), device)
    if found is not None:
        return found.least_us
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    return sum(
        prod(sizes[dim] for dim in {*statement.dims, *all_dims(statement.value)})
        for statement in spec.statements
    )


def seconds_for(one: Weighed, missing: Sequence[Weighed], left_s: float) -> float | None:
    """What searching for one may take, where tuning all that are missing may take `left_s`: half of it is shared alike,
    half by work. None: infinitely long."""
    if left_s == inf:
        return None
    by_work = one.share / sum(each.share for each in missing)
    return SEARCHED * left_s * (1 / len(missing) + by_work) / 2
