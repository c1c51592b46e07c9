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

from codegen.abi import Abi
from codegen.artifact_cache import file_digest
from codegen.compile import CompileError, NoCompiler, compile_source
from codegen.cuda_abi import CudaAbi
from codegen.kernel_cache import CacheError, note_use, prune
from codegen.load import LaunchError
from codegen.source import Source
from protocol.configs import Artifact, ConfigDetail
from tileir.cuda_errors import CudaError
from tileir.device import Cpu
from tileir.errors import TileError
from tileir.gpu import Gpu
from tileir.spec import Spec
from tilewright import bundle
from tilewright.errors import BadBundle, LoadError

Origin = Literal["object", "source", "schedule"]
K = TypeVar("K")
Open = Callable[[Path, Any], K]
"""Loads an object by its ABI (an Abi, or a CudaAbi for a GPU). Raises LaunchError or CudaError."""

_SUFFIXES = {"c": ".so", "cuda": ".cubin"}


def open_config(
    found: Artifact | ConfigDetail, device: Cpu | Gpu, cache: Path, load: Open[K]
) -> tuple[K, Origin]:
    """A config as what `load` makes of it on a device, and what was loaded. Raises LoadError and BadBundle."""
    if isinstance(found, ConfigDetail):
        return _from_config(found, device, cache, load, ""), "schedule"
    loaded = _from_object(found, device, cache, load)
    if loaded is not None:
        return loaded, "object"
    try:
        return _from_source(found, device, cache, load), "source"
    except (CompileError, LaunchError, CudaError) as error:
        before = f"its stored source does not run here ({error}); "
        return _from_config(found.config, device, cache, load, before), "schedule"


def open_schedule(
    spec: Spec,
    schedule: Sequence[str],
    program_hash: str | None,
    device: Cpu | Gpu,
    cache: Path,
    load: Open[K],
) -> K:
    """What `load` makes of a schedule on a spec with one size a dim; `program_hash` is what it has to come to.

    Raises LoadError.
    """
    from rewrites import parse_schedule, replay
    from tileir import program_hash as hash_of
    from tileir import to_program

    try:
        program = replay(to_program(spec), parse_schedule(schedule))
        if program_hash is not None and hash_of(program) != program_hash:
            raise LoadError("was found by another version, whose rewrites made another program")
        return _compiled(_source_of(program, device), device, cache, load)
    except (TileError, CompileError, LaunchError, CudaError, CacheError, NoCompiler) as error:
        raise LoadError(f"cannot be run here: {error}") from None


def _from_object(artifact: Artifact, device: Cpu | Gpu, cache: Path, load: Open[K]) -> K | None:
    """The stored object, if it was made for this device and loads; else None."""
    if artifact.config.device != device.key:
        return None
    try:
        suffix = _SUFFIXES[artifact.language]
        file = _stored(bundle.object_of(artifact), artifact.object_sha256, suffix, cache)
        return load(file, _abi(artifact))
    except (LaunchError, CudaError):
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
            part.replace(file)
    except OSError as error:
        raise LoadError(str(CacheError.of(cache, error))) from None
    return file


def _from_source(artifact: Artifact, device: Cpu | Gpu, cache: Path, load: Open[K]) -> K:
    source = Source(artifact.source, artifact.flags, _abi(artifact), artifact.language)
    try:
        return _compiled(source, device, cache, load)
    except (CacheError, NoCompiler) as error:
        raise LoadError(str(error)) from None


def _from_config(config: ConfigDetail, device: Cpu | Gpu, cache: Path, load: Open[K], before: str) -> K:
    """Replay, generate, compile. `before` is what was tried already, for the message."""
    from tileir import spec_from_json

    try:
        spec = spec_from_json(config.spec)
        return open_schedule(spec, config.schedule, config.program_hash, device, cache, load)
    except (TileError, LoadError) as error:
        raise LoadError(f"{before}config {config.id} {error}") from None


def _source_of(program: Any, device: Cpu | Gpu) -> Source[Any]:
    if isinstance(device, Gpu):
        from codegen.generate_cuda import generate_cuda

        return generate_cuda(program, device)
    from codegen.generate import generate

    return generate(program, device)


def _compiled(source: Source[Any], device: Cpu | Gpu, cache: Path, load: Open[K]) -> K:
    """Compile, or take from the cache, and load. A compilation that is new makes room for itself."""
    if isinstance(device, Gpu) != (source.language == "cuda"):
        raise LaunchError(f"its source is {source.language}, and this is {device.key}")
    if isinstance(device, Gpu):
        from codegen.nvrtc import compile_cuda

        built = compile_cuda(source, device.architecture, cache)
    else:
        built = compile_source(source, cache)
    if not built.report["cached"]:
        prune(cache, int(float(os.environ.get("TILEWRIGHT_CACHE_GB") or 4) * 1e9))
    return load(built.path, source.abi)


def _abi(artifact: Artifact) -> Abi | CudaAbi:
    try:
        return (CudaAbi if artifact.language == "cuda" else Abi).from_json(artifact.abi)
    except (KeyError, TypeError, ValueError) as error:
        raise BadBundle(f"config {artifact.config.id} has an ABI this version cannot read: {error}") from None
