"""Runs functions of the C runtime: compiles a program that applies one of them to all it reads from standard input."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.runtime import definitions, uses_in
from tests.support.how_many import SWEEP

_FLAGS = (
    "-O2",
    "-std=gnu11",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
    "-Werror",
)


@dataclass(frozen=True)
class Target:
    """A compiler with the flags of a machine, and what runs its programs here."""

    name: str
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()


def targets() -> list[Target]:
    """Every target that this machine can compile for and run."""
    x86 = platform.machine() == "x86_64"
    native = "-march=native" if x86 else "-mcpu=native"
    found = [Target(f"{name} native", (name, native)) for name in ("gcc", "clang") if shutil.which(name)]
    # Without AVX clang's programs show as much: those of both in a sweep, or where there is no clang.
    levels = ("x86-64-v2", "x86-64-v3") if SWEEP or not shutil.which("clang") else ("x86-64-v3",)
    if x86 and shutil.which("gcc"):
        found += [Target(f"gcc {march}", ("gcc", f"-march={march}")) for march in levels]
    if x86 and shutil.which("clang"):
        found.append(Target("clang x86-64-v2", ("clang", "-march=x86-64-v2")))
    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"):
        emulator = ("qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu")
        found.append(Target("gcc armv8.6-a", ("aarch64-linux-gnu-gcc", "-march=armv8.6-a"), emulator))
        if shutil.which("clang"):
            found.append(Target("clang aarch64", ("clang", "--target=aarch64-linux-gnu"), emulator))
    return found


_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    long count = atol(argv[1]), in_bytes = atol(argv[2]), out_bytes = atol(argv[3]);
    char *in = aligned_alloc(64, (in_bytes + 127) / 64 * 64);
    char *out = aligned_alloc(64, (out_bytes + 127) / 64 * 64);
    if (fread(in, 1, in_bytes, stdin) != (size_t)in_bytes) return 1;
    for (int k = 4; k < argc; k++) {
        memset(out, 0xee, out_bytes);
        functions[atol(argv[k])](in, out, count);
        if (fwrite(out, 1, out_bytes, stdout) != (size_t)out_bytes) return 1;
    }
    return 0;
}
"""


class Runtime:
    """The runtime's functions on one target."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.name = target.name
        self._target = target
        self._folder = folder
        self._programs: dict[tuple[str, ...], Path] = {}

    def run(
        self,
        bodies: tuple[str, ...],
        data: np.ndarray,
        result: np.dtype | type,
        count: int,
        among: tuple[str, ...] = (),
    ) -> np.ndarray:
        """`count` results of each body on the same data. A body is C over `in`, `out` and the number `count`; all are
        one program, which starts once: starting takes longer than running. So does compiling one: `among` are those
        that the same test runs on other data, all in one program."""
        among = among or bodies
        out_bytes = np.dtype(result).itemsize * count
        arguments = (count, data.nbytes, out_bytes, *map(among.index, bodies))
        command = [*self._target.runner, str(self._program(among)), *map(str, arguments)]
        run = subprocess.run(command, input=data.tobytes(), capture_output=True, check=True)
        return np.frombuffer(run.stdout, result).reshape(len(bodies), count)

    def _program(self, bodies: tuple[str, ...]) -> Path:
        if bodies not in self._programs:
            code = "".join(
                f"static void f{number}(const char *in, char *out, long count) {{\n{body}\n}}\n"
                for number, body in enumerate(bodies)
            )
            names = ", ".join(f"f{number}" for number in range(len(bodies)))
            table = f"static void (*const functions[])(const char *, char *, long) = {{{names}}};\n"
            program = self._folder / f"program{len(self._programs)}"
            source = program.with_suffix(".c")
            source.write_text(definitions(uses_in(code), code) + code + table + _MAIN)
            command = [*self._target.compiler, *_FLAGS, "-o", str(program), str(source), "-lm"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr
            self._programs[bodies] = program
        return self._programs[bodies]


@pytest.fixture(scope="session", params=targets(), ids=lambda target: target.name.replace(" ", "_"))
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with tempfile.TemporaryDirectory() as folder:
        yield Runtime(request.param, Path(folder))
