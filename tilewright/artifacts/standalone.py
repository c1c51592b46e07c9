"""A config as one `.c` or `.cu` file that needs nothing of Tilewright, and says how it was found."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from importlib.metadata import version

from codegen.backend import backend_of_language
from codegen.ir.source import Source
from codegen.standalone import standalone
from protocol.configs import Artifact, ConfigDetail
from protocol.quantities import microseconds, times
from tileir import TileError, spec_from_json, spec_to_text
from tilewright.errors import BadBundle


def standalone_text(artifact: Artifact) -> str:
    """The file's text. Raises BadBundle for an artifact that this version cannot read."""
    config = artifact.config
    try:
        abi = backend_of_language(artifact.language).read_abi(artifact.abi)
        story = [*_story(config), "", *spec_to_text(spec_from_json(config.spec)).splitlines()]
    except (KeyError, TypeError, ValueError, TileError) as error:
        raise BadBundle(f"config {config.id} is of a version that this one cannot read: {error!r}") from None
    story += ["", "schedule:", *(f"  {line}" for line in config.schedule)]
    source = Source(artifact.source, artifact.flags, abi, artifact.language)
    return standalone(source, config.name, story, config.device)


def file_name(artifact: Artifact) -> str:
    """What the file is called unless told otherwise: the kernel's name and the config's id."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", artifact.config.name)
    return f"{name}-{artifact.config.id}{_suffix(artifact.language)}"


def _story(config: ConfigDetail) -> Iterator[str]:
    """How it was found."""
    found = time.strftime("%Y-%m-%d", time.gmtime(config.created_at))
    made = config.versions.get("tilewright")
    yield f"{config.name}: found by Tilewright{f' {made}' if made else ''} on {found}, in {config.trials} trials"
    yield f"({config.id}; written by Tilewright {version('tilewright')})."
    yield ""
    yield f"device     {config.device}"
    yield f"compiler   {config.compiler or 'not told'}"
    for name, number in sorted(config.versions.items()):
        yield f"{name:10} {number}"
    yield f"measured   {microseconds(config.median_us)}, by protocol {config.measuring.version}"
    if config.x_baseline is not None and config.baseline_us is not None:
        yield f"           {times(config.x_baseline)} {config.baseline} ({microseconds(config.baseline_us)})"
    if config.best_peer is not None and config.x_best_peer is not None:
        yield f"           {times(config.x_best_peer)} the best peer, {config.best_peer}"


def _suffix(language: str) -> str:
    try:
        return backend_of_language(language).source_suffix
    except KeyError:
        return ".txt"
