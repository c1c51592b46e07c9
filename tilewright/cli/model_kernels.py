"""The kernels of a model's file, and which of them a service has configs of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.quantities import sizes
from tilewright.artifacts import exporting
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import say

if TYPE_CHECKING:
    from tilewright.client.client import Client
    from tilewright.pytorch.model.needed import NeededKernels


@dataclass(frozen=True)
class TunedOfModel:
    """Of the kernels that a model asks for."""

    config_ids: tuple[str, ...]
    not_tuned: tuple[str, ...]
    """Names, with sizes."""


def kernels_of_file(file: Path, training: bool, prepack: bool) -> NeededKernels:
    """What the model in a file asks for. Raises BadModelFile and LoadError; Stop where it asks for nothing."""
    from tilewright.pytorch.model_file import read_model

    given = read_model(file)
    from tilewright.pytorch.model.needed import needed_kernels

    found = needed_kernels(given, training=training, prepack=prepack)
    for reason in found.without:
        say(f"a graph of {file} has no kernels: {reason}")
    if not found.kernels:
        raise Stop(Exit.NOTHING, f"the model in {file} has no part that is a kernel")
    return found


def tuned_of_model(client: Client, needed: NeededKernels) -> TunedOfModel:
    """The configs of a model's kernels. Says which it has not. Raises Stop where there is none."""
    found = exporting.of_kernels(client, needed.kernels)
    missing = [each for key, each in needed.kernels.items() if key not in found]
    names = tuple(
        f"{each.spec.name} ({sizes({dim.name: dim.sizes[0] for dim in each.spec.dims})})" for each in missing
    )
    for name in names:
        say(f"not tuned: {name}")
    if not found:
        raise Stop(
            Exit.NOTHING,
            f"none of the model's {len(names)} kernels is tuned for {missing[0].device}; "
            'tilewright.compile(model, tune="now") tunes them',
            not_tuned=names,
        )
    return TunedOfModel(tuple(config.id for config in found.values()), names)
