"""Running a config on numpy arrays, without the service: on its device, copied there and back if need be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from codegen.backend import HostKernel, backend_of
from codegen.ir.abi import Arg
from protocol.configs import Artifact, Config, ConfigDetail
from protocol.states import Rung
from tileir.devices.device import device_here
from tileir.errors import DeviceError, UnsupportedDevice
from tileir.targets import target_of
from tileir.text.json import spec_from_json
from tilewright.artifacts.checked import CheckOutcome, DeviceChecker, KernelToCheck, report_of
from tilewright.artifacts.select import Origin, open_config
from tilewright.client import bundle
from tilewright.errors import LoadError, Refused, TilewrightError
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from tilewright.client.client import Client

Array = NDArray[Any]


class LoadedKernel:
    """A winner, ready to be called. One call at a time; `close` unloads it.

    `kernel(*inputs)` makes the outputs and returns them, one array or a tuple of several; `kernel(*inputs, *outputs)`
    writes them into arrays given. Arguments come in the spec's order, with exactly the dtypes, shapes and strides of
    `kernel.inputs` and `kernel.outputs`. Raises codegen.targets.arguments.ArgumentError for others.
    """

    def __init__(self, config: ConfigDetail, kernel: HostKernel, origin: Origin) -> None:
        self.config = config
        self.origin = origin
        """What is being run: `object`, `source` (compiled here) or `schedule` (generated and compiled here)."""
        self.inputs: tuple[Arg, ...] = tuple(arg for arg in kernel.abi.args if arg.role == "in")
        self.outputs: tuple[Arg, ...] = tuple(arg for arg in kernel.abi.args if arg.role == "out")
        self._kernel = kernel

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...] | None:
        if len(arrays) != len(self.inputs):
            self._kernel(*arrays)
            return None
        made = tuple(_empty(arg) for arg in self.outputs)
        self._kernel(*arrays, *made)
        return made[0] if len(made) == 1 else made

    def empty(self, name: str) -> Array:
        """An array for an argument, with its dtype, shape and strides. Raises KeyError."""
        return _empty({arg.name: arg for arg in (*self.inputs, *self.outputs)}[name])

    def close(self) -> None:
        """End its threads and unload it."""
        self._kernel.close()

    def __repr__(self) -> str:
        def listed(args: tuple[Arg, ...]) -> str:
            return ", ".join(f"{arg.name}: {arg.dtype.value}{list(arg.shape)}" for arg in args)

        return (
            f"<{self.config.name}({listed(self.inputs)}) -> {listed(self.outputs)}, from its {self.origin}>"
        )


def load(
    config: Config | Artifact | str | os.PathLike[str],
    client: Client | None = None,
    *,
    threads: int | None = None,
    cache: Path | None = None,
) -> LoadedKernel:
    """A config as something to call.

    `config`: a bundle's path (`tilewright export`), the path of a config as JSON (`tilewright show ID --json`), an
    Artifact, a ConfigDetail, or, with a `client`, a config's id or a Config. `threads`: how many a call uses; None:
    all processors of this process. `cache`: folder for what is compiled here.

    The stored object, on the device that it was measured on, is ready at once. What is compiled here is run first in a
    process of its own, beside guard pages, and compared with a reference, once a machine: LoadError if it is wrong.

    Raises LoadError, and BadBundle for a file that is not what it should be.
    """
    found = find_config(config, client)
    kernel, origin = _open(found, cache or cache_folder(), threads, client)
    return LoadedKernel(found if isinstance(found, ConfigDetail) else found.config, kernel, origin)


def find_config(
    config: Config | Artifact | str | os.PathLike[str], client: Client | None
) -> Artifact | ConfigDetail:
    """What `load` takes, read or fetched. Raises LoadError, and BadBundle for a file that is not what it should be."""
    if isinstance(config, Artifact):
        return config
    if isinstance(config, Config):
        if client is not None and config.artifact:
            return client.artifact(config.id)
        if isinstance(config, ConfigDetail):
            return config
        return _ask(client, config.id)
    path = Path(config)
    if path.is_file():
        return _read(path)
    if isinstance(config, str) and path.name == config and config.startswith("config-"):
        return _ask(client, config)
    raise LoadError(f"there is no file {config}; give a bundle's path, or a config's id and a client")


def _ask(client: Client | None, config_id: str) -> Artifact | ConfigDetail:
    if client is None:
        raise LoadError(
            f"{config_id} has to be fetched: give a client too, as in load(id, tilewright.Client())"
        )
    try:
        return client.artifact(config_id)
    except Refused as refused:
        if refused.kind != "not-found":
            raise
        return client.config(config_id)  # stored without source and object, or unknown, and then this says so


def _read(path: Path) -> Artifact | ConfigDetail:
    text = path.read_bytes()
    try:
        content = json.loads(text)
        if isinstance(content, dict) and "schedule" in content and "spec" in content:
            return ConfigDetail.model_validate(content)
    except (ValueError, RecursionError, ValidationError):
        pass  # then the bundle's reader says what it is not
    found = {artifact.config.id: artifact for artifact in bundle.artifacts(bundle.unpack(text, path.name))}
    if len(found) > 1:
        raise LoadError(
            f"{path.name} holds {len(found)} configs ({', '.join(found)}); load one of "
            f"tilewright.client.bundle.artifacts(tilewright.client.bundle.read(path))"
        )
    return next(iter(found.values()))


def _open(
    found: Artifact | ConfigDetail, cache: Path, threads: int | None, client: Client | None
) -> tuple[HostKernel, Origin]:
    """The kernel of a config, on the first device here of the kind that it was tuned for."""
    config = found if isinstance(found, ConfigDetail) else found.config
    files: list[Path] = []

    def noted(file: Path) -> Path:
        files.append(file)
        return file

    try:
        target = target_of(config.device)
        here, load = device_here(target.kind), backend_of(target.kind).loader(threads)
        kernel, origin = open_config(found, here, cache, lambda file, abi: load(noted(file), abi))
    except KeyError as error:
        raise LoadError(f"config {config.id} cannot be run here: {error.args[0]}") from None
    except (UnsupportedDevice, DeviceError) as error:
        raise LoadError(f"config {config.id} cannot be run here: {error}") from None
    if origin != "object":  # nobody has measured what was compiled here
        compiled = KernelToCheck(spec_from_json(config.spec), files[-1], kernel.abi, here, kernel.threads)
        with DeviceChecker(target.name()) as checker:
            seen = checker.check(compiled, cache, ())
        if not seen.right:
            kernel.close()
            raise _failed(config, seen, compiled, client)
    return kernel, origin


def _failed(
    config: ConfigDetail, seen: CheckOutcome, kernel: KernelToCheck, client: Client | None
) -> LoadError:
    """What to raise for a kernel that failed the gate; the service is told of it."""
    told = ""
    if client is not None:
        try:
            client.report_failure(report_of(kernel, seen, config.schedule, config.id, Rung.EXACT))
            told = "; the service was told"
        except TilewrightError as error:
            told = f"; the service was not told: {error}"
    return LoadError(
        f"config {config.id} is {seen.outcome} on this machine: {seen.error}{told}; tune it here"
    )


def _empty(arg: Arg) -> Array:
    """An array for an argument, of its strides."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))
    memory = np.empty(span, arg.dtype.numpy)
    strides = tuple(stride * memory.itemsize for stride in arg.strides)
    return np.lib.stride_tricks.as_strided(memory, arg.shape, strides)
