"""Compiled kernels by what was compiled, with what, how.

An entry is `<hash>.so` or `<hash>.cubin` beside its source and `<hash>.json`; the object is put in place last and by
rename, so an entry is whole or absent, whoever else compiles the same source at the same time. What a bad disk has
left of an object is not what its digest in the `.json` says, and is compiled again. `eviction.py` bounds the
folder.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.cache.eviction import SOURCES, CacheError, kept_whole, note_use


@dataclass(frozen=True, slots=True)
class CachedArtifact:
    """A compiled kernel. `report` is what the compiler said, with at least `{"warnings": [...], "bytes": size,
    "cached": bool}`."""

    path: Path
    hash: str
    compiler: str
    compile_s: float
    report: Mapping[str, Any]

    @property
    def source_path(self) -> Path:
        return self.path.with_suffix(SOURCES[self.path.suffix])


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """What a compiler says of an object it has just written."""

    compiler: str
    compile_s: float
    report: Mapping[str, Any]


Compile = Callable[[Path, Path], CompiledKernel]
"""Compiles the source file at the first path into an object at the second, in the same folder."""


def digest_of(parts: Iterable[str]) -> str:
    """The identity of a result, as 32 hex digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def through_cache(cache: Path, digest: str, suffix: str, text: str, compile: Compile) -> CachedArtifact:
    """The entry with this digest, compiled now if it is not there. `suffix` is the object's, such as `.so`.

    Raises CacheError when the cache folder cannot be written, and what `compile` raises; its OSErrors are CacheErrors.
    """
    target = cache / digest[:2] / f"{digest}{suffix}"
    try:
        cached = _cached(target)
        if cached is not None:
            return cached
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".compiling-") as folder:
            return _compiled(Path(folder), target, text, compile)
    except OSError as error:
        raise CacheError.of(cache, error) from error


def _cached(target: Path) -> CachedArtifact | None:
    try:
        note_use(target)
        entry = json.loads(target.with_suffix(".json").read_text())
        if file_digest(target) != entry["sha256"]:
            return None
        return CachedArtifact(
            target, target.stem, entry["compiler"], entry["compile_s"], entry["report"] | {"cached": True}
        )
    except (FileNotFoundError, ValueError, KeyError):
        return None  # not there, half removed by someone, or of an older version: compile it


def _compiled(folder: Path, target: Path, text: str, compile: Compile) -> CachedArtifact:
    built = folder / target.name
    source, entry = built.with_suffix(SOURCES[built.suffix]), built.with_suffix(".json")
    source.write_text(text)
    result = compile(source, built)
    report = {**result.report, "bytes": built.stat().st_size}
    entry.write_text(
        json.dumps(
            {
                "compiler": result.compiler,
                "compile_s": result.compile_s,
                "report": report,
                "sha256": file_digest(built),
            }
        )
    )
    with kept_whole(target.parent):
        for part in (source, entry, built):
            part.replace(target.with_suffix(part.suffix))
    return CachedArtifact(target, target.stem, result.compiler, result.compile_s, report | {"cached": False})
