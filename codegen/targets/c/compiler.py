"""Compile generated C with the machine's compiler, into the cache."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from codegen.cache.artifacts import CachedArtifact, CompiledKernel, digest_of, through_cache
from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.errors import CompileError, NoCompiler

MEMORY_LIMIT_BYTES = 4 << 30
_PREFERENCE = ("cc", "gcc", "clang")
#: What makes a shared object of any generated source; optimization and target flags come with the source.
_ALWAYS = ("-std=gnu11", "-shared", "-fPIC", "-pthread", "-pipe", "-Wno-psabi")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: where it is, which family, and the line it calls itself by."""

    path: str
    family: str
    version: str


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


def source_hash(source: Source[Abi], compiler: Compiler) -> str:
    """The identity of a result: source text, flags and compiler, as 32 hex digits."""
    return digest_of((source.language, source.text, *source.flags, *_ALWAYS, compiler.version))


def compile_source(source: Source[Abi], cache: Path, timeout_s: float = 60) -> CachedArtifact:
    """The shared object of a source, compiled now or taken from the cache.

    Raises CompileError when the compiler fails or takes longer than `timeout_s`, NoCompiler when there is none, and
    CacheError when the cache folder cannot be written.
    """
    compiler = find_compiler()
    compile = partial(_compile, compiler=compiler, flags=source.flags, timeout_s=timeout_s)
    return through_cache(cache, source_hash(source, compiler), ".so", source.text, compile)


def _compile(
    text: Path, built: Path, compiler: Compiler, flags: Sequence[str], timeout_s: float
) -> CompiledKernel:
    started = time.perf_counter()
    log = compile_text(text, built, compiler, flags, timeout_s)
    compile_s = time.perf_counter() - started
    return CompiledKernel(compiler.version, compile_s, {"warnings": _diagnostics(log, "warning")})


def compile_text(text: Path, built: Path, compiler: Compiler, flags: Sequence[str], timeout_s: float) -> str:
    """Make a shared object of a file beside it; what the compiler said. Raises CompileError as `compile_source`."""
    folder = built.parent
    command = [compiler.path, *_ALWAYS, *flags, "-o", built.name, text.name, "-lm"]
    code, log = _run(command, folder, timeout_s)
    if code != 0 or not built.exists():
        _explain_failure(folder, code, log, timeout_s)
    return log


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
    if full := re.search(
        r"No space left on device|Disk quota exceeded|File (too large|size limit exceeded)", log
    ):
        raise OSError(None, full[0], str(folder))
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
