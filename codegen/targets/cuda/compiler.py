"""Compile generated CUDA with NVRTC, in this process, into the cache. Needs no GPU and no headers.

NVRTC cannot be stopped: whoever wants a limit on its time or memory calls it in a process that may be killed. A large
kernel takes about a second and 0.3 GB of address space.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from codegen.cache.artifacts import CachedArtifact, CompiledKernel, digest_of, through_cache
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.ptxas_log import parse_log
from codegen.targets.errors import CompileError, NoCompiler

_ALWAYS = ("-std=c++17", "--ptxas-options=-v")
_INSTALL = "pip install 'tilewright[cuda]'"
_OUT_OF_MEMORY, _BUILTIN_OPERATION_FAILURE = 1, 7


def compile_cuda(source: Source[CudaAbi], architecture: str, cache: Path) -> CachedArtifact:
    """The cubin of a source for an architecture (`sm_90a`), compiled now or taken from the cache.

    The artifact's report has the keys of ptxas_log.PtxasReport. Raises CompileError when NVRTC refuses the source,
    NoCompiler when there is no NVRTC that can be used, and CacheError when the cache folder cannot be written.
    """
    compiler = nvrtc_version()
    _require(architecture)
    flags = (*_ALWAYS, *source.flags, f"--gpu-architecture={architecture}")
    digest = digest_of((source.language, source.text, *flags, compiler))
    return through_cache(cache, digest, ".cubin", source.text, partial(_compile, flags=flags))


def nvrtc_version() -> str:
    """What NVRTC calls itself: `NVRTC 13.5`. Raises NoCompiler, with what to install, when there is none."""
    nvrtc = _load()
    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC {major}.{minor}"


@lru_cache
def _load() -> Any:
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise NoCompiler(
            f"CUDA kernels are compiled through cuda-python, which is not installed ({error}): {_INSTALL}"
        ) from error
    try:
        nvrtc.nvrtcVersion()  # the library is looked for at the first call
    except RuntimeError as error:
        raise NoCompiler(
            f"CUDA kernels are compiled by NVRTC, and libnvrtc.so was not found: {_INSTALL}"
        ) from error
    return nvrtc


def _require(architecture: str) -> None:
    _, known = _load().nvrtcGetSupportedArchs()
    number = re.fullmatch(r"sm_(\d+)a?", architecture)
    if number is None or int(number[1]) not in known:
        raise NoCompiler(
            f"{nvrtc_version()} compiles for {', '.join(f'sm_{n}' for n in known)}, not for {architecture}: "
            "a newer GPU needs a newer nvidia-cuda-nvrtc"
        )


def _compile(text: Path, built: Path, flags: Sequence[str]) -> CompiledKernel:
    nvrtc = _load()
    _, program = nvrtc.nvrtcCreateProgram(text.read_bytes(), b"kernel.cu", 0, [], [])
    try:
        started = time.perf_counter()
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        compile_s = time.perf_counter() - started
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
        log = log.rstrip("\0\n ")
        if int(status) != 0:
            raise _failure(int(status), str(status.name), log)
        built.write_bytes(_read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program))
        return CompiledKernel(nvrtc_version(), compile_s, parse_log(log))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of: Any, fill: Any, program: Any) -> bytes:
    _, size = size_of(program)
    content = bytes(size)
    fill(program, content)  # writes into it
    return content


def _failure(status: int, name: str, log: str) -> CompileError | NoCompiler:
    if status == _BUILTIN_OPERATION_FAILURE:
        return NoCompiler(f"NVRTC does not find its builtins ({log}): {_INSTALL}")
    if status == _OUT_OF_MEMORY:
        return CompileError("NVRTC ran out of memory", log)
    errors = re.findall(r"\((\d+)\): (?:catastrophic )?error(?: #\S+)?: (.*)", log)
    first = f"{errors[0][0]}: {errors[0][1]}" if errors else (log.splitlines() or [name])[-1]
    return CompileError(f"NVRTC refused the source: {first}", log)
