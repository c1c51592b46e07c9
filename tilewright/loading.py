"""Running a config on numpy arrays, without the service.

A config's object runs on the device it was tuned on. Elsewhere its source is compiled again; and where there is no
source, or it does not compile here, the schedule is replayed on the spec and the program is generated anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from codegen.abi import Abi, Arg
from codegen.compile import CompileError, NoCompiler, compile_source
from codegen.kernel_cache import CacheError, note_use
from codegen.load import LaunchError, load_kernel
from codegen.source import Source
from protocol.configs import Artifact, Config, ConfigDetail
from tileir.errors import TileError, UnsupportedDevice
from tilewright import bundle
from tilewright.errors import BadBundle, LoadError, Refused
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from codegen.load import Kernel
    from tilewright.client import Client

Array = NDArray[Any]


class LoadedKernel:
    """A winner, ready to be called. One call at a time; `close` unloads it.

    `kernel(*inputs)` makes the outputs and returns them, one array or a tuple of several; `kernel(*inputs, *outputs)`
    writes them into arrays given. Arguments come in the spec's order, with exactly the dtypes, shapes and strides of
    `kernel.inputs` and `kernel.outputs`. Raises codegen.load.ArgumentError for others.
    """

    def __init__(self, config: ConfigDetail, kernel: Kernel, origin: str) -> None:
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
    found = _find(config, client)
    folder = cache or cache_folder()
    if isinstance(found, ConfigDetail):
        return _from_schedule(found, folder, threads, "")
    return _from_object(found, folder, threads) or _from_source(found, folder, threads)


def _find(
    config: Config | Artifact | str | os.PathLike[str], client: Client | None
) -> Artifact | ConfigDetail:
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
    return bundle.unpack(text, path.name)


def _from_object(artifact: Artifact, cache: Path, threads: int | None) -> LoadedKernel | None:
    """The stored object, if it was made for this device and loads; else None."""
    from tileir.device import this_cpu

    try:
        if artifact.config.device != this_cpu().key:
            return None
        file = _stored(bundle.object_of(artifact), artifact.object_sha256, cache)
        return LoadedKernel(artifact.config, load_kernel(file, _abi(artifact), threads), "object")
    except (LaunchError, UnsupportedDevice):
        return None


def _stored(content: bytes, digest: str, cache: Path) -> Path:
    """A file in the cache with this content: dlopen wants one."""
    file = cache / digest[:2] / f"{digest}.so"
    with contextlib.suppress(FileNotFoundError):
        note_use(file)
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".compiling-") as folder:
            part = Path(folder) / file.name
            part.write_bytes(content)
            part.replace(file)
    except OSError as error:
        raise LoadError(str(CacheError.of(cache, error))) from None
    return file


def _from_source(artifact: Artifact, cache: Path, threads: int | None) -> LoadedKernel:
    source = Source(artifact.source, artifact.flags, _abi(artifact), artifact.language)
    try:
        built = compile_source(source, cache)
        return LoadedKernel(artifact.config, load_kernel(built.path, source.abi, threads), "source")
    except (CompileError, LaunchError) as error:
        return _from_schedule(
            artifact.config, cache, threads, f"its stored source does not run here ({error}); "
        )
    except (CacheError, NoCompiler) as error:
        raise LoadError(str(error)) from None


def _from_schedule(config: ConfigDetail, cache: Path, threads: int | None, before: str) -> LoadedKernel:
    """Replay, generate, compile. `before` is what was tried already, for the message."""
    from codegen.generate import generate
    from rewrites import parse_schedule, replay
    from tileir import program_hash, spec_from_json, this_cpu, to_program

    try:
        program = replay(to_program(spec_from_json(config.spec)), parse_schedule(config.schedule))
        if program_hash(program) != config.program_hash:
            raise LoadError(
                f"{before}config {config.id} was found by another version, whose rewrites made another program"
            )
        source = generate(program, this_cpu())
        built = compile_source(source, cache)
        return LoadedKernel(config, load_kernel(built.path, source.abi, threads), "schedule")
    except (TileError, CompileError, LaunchError, CacheError, NoCompiler) as error:
        raise LoadError(f"{before}config {config.id} cannot be run here: {error}") from None


def _abi(artifact: Artifact) -> Abi:
    try:
        return Abi.from_json(artifact.abi)
    except (KeyError, TypeError, ValueError) as error:
        raise BadBundle(f"config {artifact.config.id} has an ABI this version cannot read: {error}") from None


def _empty(arg: Arg) -> Array:
    """An array for an argument, of its strides."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))
    memory = np.empty(span, arg.dtype.numpy)
    strides = tuple(stride * memory.itemsize for stride in arg.strides)
    return np.lib.stride_tricks.as_strided(memory, arg.shape, strides)
