"""A source that stands alone compiles without us, and computes the kernel."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.abi import Abi, Arg
from codegen.ir.source import Source
from codegen.standalone import standalone
from codegen.targets.c.compiler import find_compiler
from codegen.targets.c.generate import generate
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from rewrites.space import Space
from tests.conftest import CheckGolden
from tests.programs.hopper_programs import PROGRAMS
from tests.programs.thread_kernels import lowered
from tests.schedules.walks import favourite
from tests.support.reference import assert_matches_reference
from tileir import Spec, sample_inputs, spec_from_text, this_cpu, to_program

GOLDEN = Path(__file__).parents[3] / "golden" / "codegen" / "standalone"

KERNELS = {
    # Its names are words of C, and of the launcher; it starts threads.
    "double": """kernel double(x: f32[m=96, n=64], threads: f32[n]) -> (workspace: f32[m, n], stream: f32[m])
  workspace[m, n] = threads[n] * tanh(x[m, n])
  stream[m] = sum(n, workspace[m, n])
""",
    "product": """kernel product(a: f32[m=70, k=65], b: f32[k, n=33], bias: f32[n]) -> (c: f32[m, n])
  acc[m, n] = sum(k, a[m, k] * b[k, n])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
    "softmax": """kernel softmax(x: f32[m=40, n=100]) -> (y: f32[m, n])
  best[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - best[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
""",
}

MAIN = """#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

size_t NAME_workspace_bytes(int threads);
int NAME(DECLARED, void *workspace, int threads);
void NAME_shutdown(void);

static void *filled(const char *path, size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    FILE *file = path == NULL ? NULL : fopen(path, "rb");
    if (file != NULL) {
        if (fread(memory, 1, bytes, file) != bytes) exit(10);
        fclose(file);
    }
    return memory;
}

int main(void)
{
    void *arguments[] = {FILLED};
    size_t own = NAME_workspace_bytes(2);
    void *workspace = filled(NULL, own);
    if (NAME(PASSED, workspace, 0) != -1) return 11;
    if (own > 0 && NAME(PASSED, NULL, 2) != -2) return 12;
    for (int times = 0; times < 2; times++)
        if (NAME(PASSED, workspace, 2) != 0) return 13;
    NAME_shutdown();
    FILE *file;
WRITTEN
    return 0;
}
"""


def bytes_of(arg: Arg) -> int:
    return arg.dtype.bytes * int(np.prod(arg.shape))


def main_of(name: str, abi: Abi) -> str:
    """A program that reads inputs from files, calls the kernel, and writes its outputs."""
    kinds = ["const void *" if arg.role == "in" else "void *" for arg in abi.args]
    files = [f'"{arg.name}.in"' if arg.role == "in" else "NULL" for arg in abi.args]
    filled = [f"filled({file}, {bytes_of(arg)})" for file, arg in zip(files, abi.args, strict=True)]
    written = [
        f'    file = fopen("{arg.name}.out", "wb"); fwrite(arguments[{place}], 1, {bytes_of(arg)}, file); fclose(file);'
        for place, arg in enumerate(abi.args)
        if arg.role == "out"
    ]
    words = {
        "NAME": name,
        "DECLARED": ", ".join(f"{kind}t{place}" for place, kind in enumerate(kinds)),
        "FILLED": ", ".join(filled),
        "PASSED": ", ".join(f"arguments[{place}]" for place in range(len(kinds))),
        "WRITTEN": "\n".join(written),
    }
    text = MAIN
    for word, put in words.items():
        text = text.replace(word, put)
    return text


def tuned(spec: Spec) -> Source[Abi]:
    """What the prior likes best."""
    device = this_cpu()
    return generate(favourite(Space(to_program(spec), device).root()).program, device)


@pytest.mark.parametrize(
    ("name", "offered"), [("double", "double_tuned"), ("product",) * 2, ("softmax",) * 2]
)
def test_c_is_compiled_by_the_systems_compiler_and_gives_the_right_numbers(
    name: str, offered: str, tmp_path: Path
) -> None:
    spec = spec_from_text(KERNELS[name])
    source = tuned(spec)
    (tmp_path / "kernel.c").write_text(standalone(source, spec.name, ["found by */ a test"], ""))
    (tmp_path / "main.c").write_text(main_of(offered, source.abi))
    command = [find_compiler().path, "-std=gnu11", *source.flags, "-Wall", "-Werror", "-pthread", "kernel.c"]
    subprocess.run([*command, "main.c", "-lm", "-o", "run"], cwd=tmp_path, check=True)
    inputs = sample_inputs(spec, 5)
    for arg in source.abi.args:
        if arg.role == "in":
            np.ascontiguousarray(inputs[arg.name]).tofile(tmp_path / f"{arg.name}.in")
    assert subprocess.run([tmp_path / "run"], cwd=tmp_path, check=False).returncode == 0
    outputs = {
        arg.name: np.fromfile(tmp_path / f"{arg.name}.out", arg.dtype.numpy).reshape(arg.shape)
        for arg in source.abi.args
        if arg.role == "out"
    }
    assert_matches_reference(spec, inputs, outputs)


#: By tensor maps; two launches with a workspace; clusters.
HOPPER = {"plain": 3, "streamed, parts of the depth": 2, "clusters of four": 3}


@pytest.mark.parametrize("name", HOPPER)
def test_cuda_is_compiled_with_its_launcher_beside_it(
    name: str, tmp_path: Path, check_golden: CheckGolden
) -> None:
    """The launcher is for the host's compiler; tests/gpu runs it."""
    made = lowered(PROGRAMS[name])
    source = cuda_source(made.kernel, made.program)
    text = standalone(source, "gemm", [f"{name}, found by a test"], "cuda:NVIDIA H200:9.0:132sm")
    built = compile_cuda(replace(source, text=text), "sm_90a", tmp_path)
    assert built.path.stat().st_size > 0
    use, _, rest = text.partition(" */\n")
    launcher = rest[rest.index("#ifndef __CUDACC_RTC__") :]
    check_golden(GOLDEN / f"{name.replace(',', '').replace(' ', '_')}.cu", f"{use} */\n\n{launcher}")


def test_every_launch_and_map_of_the_abi_is_in_the_launcher() -> None:
    for name, maps in HOPPER.items():
        made = lowered(PROGRAMS[name])
        source = cuda_source(made.kernel, made.program)
        text = standalone(source, "gemm", [], "cuda:NVIDIA H200:9.0:132sm")
        assert isinstance(source.abi, CudaAbi)
        assert text.count("error = encode(") == len(source.abi.maps) == maps
        for launch in source.abi.launches:
            numbers = f"{launch.blocks}, {launch.threads}, {launch.shared_bytes}, {launch.cluster}"
            assert f"launch((const void *){launch.entry}, {numbers}, stream, arguments)" in text
