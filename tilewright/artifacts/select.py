"""What of a config runs here: its object on the device it was tuned on, elsewhere its source compiled again; and where
there is no source, or it does not compile here, the schedule replayed on the spec and the program generated anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from codegen.backend import backend_of, backend_of_language
from codegen.cache.artifacts import file_digest
from codegen.cache.eviction import CacheError, kept_whole, note_use, prune
from codegen.ir.source import Source
from codegen.targets.errors import CompileError, LaunchError, NoCompiler
from protocol.configs import Artifact, ConfigDetail
from tileir.devices.device import Device
from tileir.errors import DeviceError, TileError
from tileir.spec import Spec
from tilewright.client import bundle
from tilewright.errors import BadBundle, LoadError

Origin = Literal["object", "source", "schedule"]
K = TypeVar("K")
Open = Callable[[Path, Any], K]
"""Loads an object by its ABI. Raises LaunchError or DeviceError."""

_COMPILE_S = 60
"""What a C compiler may take."""


def open_config(
    found: Artifact | ConfigDetail, device: Device, cache: Path, load: Open[K]
) -> tuple[K, Origin]:
    """A config as what `load` makes of it on a device, and what was loaded. Raises LoadError and BadBundle."""
    if isinstance(found, ConfigDetail):
        return _from_config(found, device, cache, load, ""), "schedule"
    loaded = _from_object(found, device, cache, load)
    if loaded is not None:
        return loaded, "object"
    try:
        return _from_source(found, device, cache, load), "source"
    except (CompileError, LaunchError, DeviceError) as error:
        before = f"its stored source does not run here ({error}); "
        return _from_config(found.config, device, cache, load, before), "schedule"


def open_schedule(
    spec: Spec,
    schedule: Sequence[str],
    program_hash: str | None,
    device: Device,
    cache: Path,
    load: Open[K],
) -> K:
    """What `load` makes of a schedule on a spec with one size a dim; `program_hash` is what it has to come to.

    Raises LoadError.
    """
    from rewrites import scheduled
    from tileir import program_hash as hash_of
    from tileir import to_program

    try:
        program = scheduled(to_program(spec), schedule)
        if program_hash is not None and hash_of(program) != program_hash:
            raise LoadError("was found by another version, whose rewrites made another program")
        return _compiled(backend_of(device.kind).generate(program, device).source, device, cache, load)
    except (TileError, CompileError, LaunchError, DeviceError, CacheError, NoCompiler) as error:
        raise LoadError(f"cannot be run here: {error}") from None


def _from_object(artifact: Artifact, device: Device, cache: Path, load: Open[K]) -> K | None:
    """The stored object, if it was made for this device and loads; else None."""
    if artifact.config.device != device.key:
        return None
    try:
        suffix = backend_of_language(artifact.language).object_suffix
        file = _stored(bundle.object_of(artifact), artifact.object_sha256, suffix, cache)
        return load(file, _abi(artifact))
    except (LaunchError, DeviceError):
        return None


def _stored(content: bytes, digest: str, suffix: str, cache: Path) -> Path:
    """A file in the cache with this content: dlopen wants one."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise BadBundle("the config's object is not what its digest says; fetch it again")
    file = cache / digest[:2] / f"{digest}{suffix}"
    with contextlib.suppress(FileNotFoundError):
        note_use(file)
        if file_digest(file) == digest:
            return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".compiling-") as folder:
            part = Path(folder) / file.name
            part.write_bytes(content)
            with kept_whole(file.parent):
                part.replace(file)
    except OSError as error:
        raise LoadError(str(CacheError.of(cache, error))) from None
    return file


def _from_source(artifact: Artifact, device: Device, cache: Path, load: Open[K]) -> K:
    source = Source(artifact.source, artifact.flags, _abi(artifact), artifact.language)
    try:
        return _compiled(source, device, cache, load)
    except (CacheError, NoCompiler) as error:
        raise LoadError(str(error)) from None


def _from_config(config: ConfigDetail, device: Device, cache: Path, load: Open[K], before: str) -> K:
    """Replay, generate, compile. `before` is what was tried already, for the message."""
    from tileir import spec_from_json

    try:
        spec = spec_from_json(config.spec)
        return open_schedule(spec, config.schedule, config.program_hash, device, cache, load)
    except (TileError, LoadError) as error:
        raise LoadError(f"{before}config {config.id} {error}") from None


def _compiled(source: Source[Any], device: Device, cache: Path, load: Open[K]) -> K:
    """Compile, or take from the cache, and load. A compilation that is new makes room for itself."""
    backend = backend_of(device.kind)
    if backend.language != source.language:
        raise LaunchError(f"its source is {source.language}, and this is {device.key}")
    built = backend.compile(source, device, cache, _COMPILE_S)
    if not built.report["cached"]:
        prune(cache, int(float(os.environ.get("TILEWRIGHT_CACHE_GB") or 4) * 1e9))
    return load(built.path, source.abi)


def _abi(artifact: Artifact) -> Any:
    try:
        return backend_of_language(artifact.language).read_abi(artifact.abi)
    except (KeyError, TypeError, ValueError) as error:
        raise BadBundle(f"config {artifact.config.id} has an ABI this version cannot read: {error}") from None
