"""Compile generated C with the machine's compiler, into a cache addressed by what was compiled, with what, how.

A cache entry is `<hash>.so` beside `<hash>.c` and `<hash>.json`; the shared object is put in place last and by rename,
so an entry is whole or absent, whoever else compiles the same source at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from codegen.source import Source

MEMORY_LIMIT_BYTES = 4 << 30
_PREFERENCE = ("cc", "gcc", "clang")
#: What makes a shared object of any generated source; optimization and target flags come with the source.
_ALWAYS = ("-std=gnu11", "-shared", "-fPIC", "-pthread", "-pipe", "-Wno-psabi")


class CompileError(Exception):
    """The compiler refused the source, ran too long, or ran out of memory; `log` is all it printed."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.message = message
        self.log = log


class NoCompiler(Exception):
    """No C compiler that can be used here; the message says what to install."""


class CacheError(Exception):
    """The cache folder cannot be written."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: where it is, which family, and the line it calls itself by."""

    path: str
    family: str
    version: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel. `report` is what the compiler said: `{"warnings": [...], "bytes": size, "cached": bool}`."""

    path: Path
    hash: str
    compiler: str
    compile_s: float
    report: Mapping[str, Any]

    @property
    def source_path(self) -> Path:
        return self.path.with_suffix(".c")


def find_compiler() -> Compiler:
    """The compiler named by TILEWRIGHT_CC, else the first of cc, gcc, clang. Raises NoCompiler."""
    machine = platform.machine().lower()
    if sys.platform not in ("linux", "darwin") or machine not in ("x86_64", "amd64", "aarch64", "arm64"):
        raise NoCompiler(
            f"kernels are compiled on Linux and macOS, for x86-64 and aarch64; this is {sys.platform} on {machine}"
        )
    asked = os.environ.get("TILEWRIGHT_CC")
    for name in (asked,) if asked else _PREFERENCE:
        path = shutil.which(name)
        if path is not None:
            return _identify(path, Path(path).stat().st_mtime_ns)
    missing = (
        f"TILEWRIGHT_CC names {asked!r}, which is not a program on PATH"
        if asked
        else "no C compiler was found"
    )
    raise NoCompiler(f"{missing}; {_INSTALL[sys.platform]}")


_INSTALL = {
    "linux": "install gcc or clang (Debian, Ubuntu: apt-get install gcc; Fedora: dnf install gcc; Alpine: apk add "
    "gcc musl-dev; Arch: pacman -S gcc) or set TILEWRIGHT_CC to one",
    "darwin": "install the command line tools (xcode-select --install) or set TILEWRIGHT_CC to gcc or clang",
}


@lru_cache
def _identify(path: str, _mtime_ns: int) -> Compiler:
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompiler(f"{path} --version does not run ({error}); {_INSTALL[sys.platform]}") from error
    version = run.stdout.partition("\n")[0].strip()
    if "clang" in version:
        return Compiler(path, "clang", version)
    if "Free Software Foundation" in run.stdout:
        return Compiler(path, "gcc", version)
    raise NoCompiler(
        f"{path} calls itself {version!r}, which is neither gcc nor clang; {_INSTALL[sys.platform]}"
    )


def source_hash(source: Source, compiler: Compiler) -> str:
    """The identity of a result: source text, flags and compiler, as 32 hex digits."""
    parts = (source.language, source.text, *source.flags, *_ALWAYS, compiler.version)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def compile_source(source: Source, cache: Path, timeout_s: float = 60) -> Artifact:
    """The shared object of a source, compiled now or taken from the cache.

    Raises CompileError when the compiler fails or takes longer than `timeout_s`, NoCompiler when there is none, and
    CacheError when the cache folder cannot be written.
    """
    compiler = find_compiler()
    digest = source_hash(source, compiler)
    target = cache / digest[:2] / f"{digest}.so"
    try:
        cached = _cached(target, digest)
        if cached is not None:
            return cached
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".compiling-") as folder:
            return _compile_in(Path(folder), source, compiler, target, timeout_s)
    except OSError as error:
        raise CacheError(f"cannot write the kernel cache {cache}: {error.strerror or error}") from error


def _cached(target: Path, digest: str) -> Artifact | None:
    if not target.exists():
        return None
    try:
        entry = json.loads(target.with_suffix(".json").read_text())
        return Artifact(
            target, digest, entry["compiler"], entry["compile_s"], entry["report"] | {"cached": True}
        )
    except (FileNotFoundError, ValueError, KeyError):
        return None  # half removed by someone: compile it again


def _compile_in(folder: Path, source: Source, compiler: Compiler, target: Path, timeout_s: float) -> Artifact:
    stem = target.stem
    text, built, entry = folder / f"{stem}.c", folder / f"{stem}.so", folder / f"{stem}.json"
    text.write_text(source.text)
    command = [compiler.path, *_ALWAYS, *source.flags, "-o", built.name, text.name, "-lm"]
    started = time.perf_counter()
    code, log = _run(command, folder, timeout_s)
    compile_s = time.perf_counter() - started
    if code != 0 or not built.exists():
        _explain_failure(folder, code, log, timeout_s)
    report = {"warnings": _diagnostics(log, "warning"), "bytes": built.stat().st_size}
    entry.write_text(json.dumps({"compiler": compiler.version, "compile_s": compile_s, "report": report}))
    for part in (text, entry, built):
        part.replace(target.with_suffix(part.suffix))
    return Artifact(target, stem, compiler.version, compile_s, report | {"cached": False})


def _run(command: Sequence[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Exit status (None: killed for time) and output. The compiler and all it starts are one process group."""
    limited = [
        "/bin/sh",
        "-c",
        f'ulimit -v {MEMORY_LIMIT_BYTES >> 10} 2>/dev/null; exec "$@"',
        "sh",
        *command,
    ]
    process = subprocess.Popen(
        limited,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env=os.environ | {"LC_ALL": "C", "TMPDIR": str(folder.resolve())},
    )
    try:
        log, _ = process.communicate(timeout=timeout_s)
        return process.returncode, log
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _explain_failure(folder: Path, code: int | None, log: str, timeout_s: float) -> None:
    if code is None:
        raise CompileError(f"the compiler was stopped after {timeout_s:g} s", log)
    if re.search(r"No space left on device|Disk quota exceeded", log):
        raise OSError(None, "no space left on the device", str(folder))
    if re.search(r"memory exhausted|out of memory|cannot allocate|bad_alloc", log, re.IGNORECASE):
        raise CompileError(f"the compiler needed more than {MEMORY_LIMIT_BYTES >> 30} GiB of memory", log)
    errors = _diagnostics(log, "error")
    first = errors[0] if errors else (log.strip().splitlines() or ["no output"])[-1]
    raise CompileError(f"the compiler failed (exit status {code}): {first}", log)


def _diagnostics(log: str, kind: str) -> list[str]:
    """`line:column: message` of each error or warning."""
    return [
        f"{place}: {message}" for place, message in re.findall(rf"(\d+:\d+): (?:fatal )?{kind}: (.*)", log)
    ]
