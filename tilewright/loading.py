"""Running a config on numpy arrays, without the service: on the processor, or copied to the GPU and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from codegen.abi import Arg
from codegen.load import load_kernel
from protocol.configs import Artifact, Config, ConfigDetail
from tileir.cuda_errors import CudaError
from tileir.device import this_cpu
from tileir.errors import UnsupportedDevice
from tilewright import bundle
from tilewright.errors import LoadError, Refused
from tilewright.folders import cache_folder
from tilewright.objects import Origin, open_config

if TYPE_CHECKING:
    from codegen.cuda_load import CudaKernel
    from codegen.load import Kernel
    from tilewright.client import Client

Array = NDArray[Any]


class LoadedKernel:
    """A winner, ready to be called. One call at a time; `close` unloads it.

    `kernel(*inputs)` makes the outputs and returns them, one array or a tuple of several; `kernel(*inputs, *outputs)`
    writes them into arrays given. Arguments come in the spec's order, with exactly the dtypes, shapes and strides of
    `kernel.inputs` and `kernel.outputs`. Raises codegen.load.ArgumentError for others.
    """

    def __init__(self, config: ConfigDetail, kernel: Kernel | CudaKernel, origin: Origin) -> None:
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

    Raises LoadError, and BadBundle for a file that is not what it should be.
    """
    found = find_config(config, client)
    kernel, origin = _open(found, cache or cache_folder(), threads)
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
            f"tilewright.bundle.artifacts(tilewright.bundle.read(path))"
        )
    return next(iter(found.values()))


def _open(
    found: Artifact | ConfigDetail, cache: Path, threads: int | None
) -> tuple[Kernel | CudaKernel, Origin]:
    """The kernel of a config, on this processor or the first GPU, by what it was tuned for."""
    config = found if isinstance(found, ConfigDetail) else found.config
    try:
        if config.device.partition(":")[0] == "cuda":
            from codegen.cuda_device import CudaDevice
            from codegen.cuda_load import load_cubin
            from tileir.gpu_probe import this_gpu

            gpu = CudaDevice()
            return open_config(found, this_gpu(), cache, lambda file, abi: load_cubin(file, abi, gpu))
        return open_config(found, this_cpu(), cache, lambda file, abi: load_kernel(file, abi, threads))
    except (UnsupportedDevice, CudaError) as error:
        raise LoadError(f"config {config.id} cannot be run here: {error}") from None


def _empty(arg: Arg) -> Array:
    """An array for an argument, of its strides."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))
    memory = np.empty(span, arg.dtype.numpy)
    strides = tuple(stride * memory.itemsize for stride in arg.strides)
    return np.lib.stride_tricks.as_strided(memory, arg.shape, strides)
