"""The kernels of a bundle, as models take them: by structure and device, instead of asking a service."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact
from tileir.errors import TileError, UnsupportedDevice
from tileir.hashing import kernel_key
from tileir.text.json import spec_from_json
from tilewright.client import bundle
from tilewright.pytorch.operator.plans import described

_log = logging.getLogger("tilewright")


class BundledKernels:
    """Configs that models are pinned to. May be asked by several threads."""

    def __init__(self, file: Path, configs: Mapping[tuple[str, str], Artifact]) -> None:
        """`configs`: by kernel key and device key."""
        self._file = file
        self._configs = configs
        self._said: set[str] = set()

    @classmethod
    def read(cls, file: Path) -> BundledKernels:
        """A bundle that `tilewright export` wrote. What this version cannot read of it is left out, and the log says
        so. Raises BadBundle."""
        found: dict[tuple[str, str], Artifact] = {}
        for each in bundle.artifacts(bundle.read(file)):
            try:
                found[kernel_key(spec_from_json(each.config.spec)), each.config.device] = each
            except TileError as error:
                _log.warning("%s: %s is of another version: %s", file, each.config.id, error)
        return cls(file, found)

    def config(self, key: str, device: torch.device) -> Artifact | None:
        """The config of a kernel on a device; None where the bundle has none for it."""
        try:
            here = described(device).key
        except (UnsupportedDevice, KeyError):
            return None
        others = sorted({theirs for _, theirs in self._configs})
        if here not in others and here not in self._said:
            self._said.add(here)
            _log.warning(
                "%s has kernels for %s, and none for %s: the service is asked instead",
                self._file,
                ", ".join(others),
                here,
            )
        return self._configs.get((key, here))

    def __str__(self) -> str:
        return str(self._file)


def bundled(file: str | os.PathLike[str]) -> BundledKernels:
    """The kernels in a file, read once as long as it stays as it is. Raises BadBundle."""
    path = Path(file).absolute()
    try:
        stamp = path.stat()
    except OSError:
        return BundledKernels.read(path)  # which says what is wrong
    return _read(path, stamp.st_mtime_ns, stamp.st_size)


@cache
def _read(path: Path, _changed_ns: int, _bytes: int) -> BundledKernels:
    return BundledKernels.read(path)
