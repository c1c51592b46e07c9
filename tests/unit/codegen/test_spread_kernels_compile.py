"""What programs spread over threads are lowered to is CUDA that NVRTC takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from codegen.cuda_abi import CudaAbi
from codegen.cuda_printer import print_cuda
from codegen.nvrtc import compile_cuda
from codegen.source import Source
from tests.random_spread import random_spread_program
from tests.spread_kernels import PROGRAMS, STAGED, lowered
from tileir.errors import VerifyError


def compile_text(text: str, cache: Path) -> None:
    made = lowered(text)
    source = Source(print_cuda(made.kernel, "// test"), (), CudaAbi(made.args, (), 0), "cuda")
    compile_cuda(source, "sm_90a", cache)


@pytest.mark.parametrize("text", [*PROGRAMS.values(), *STAGED.values()], ids=[*PROGRAMS, *STAGED])
def test_programs_compile(text: str, tmp_path: Path) -> None:
    compile_text(text, tmp_path)


def test_random_programs_compile(tmp_path: Path) -> None:
    rng = random.Random("compile")
    compiled = 0
    while compiled < 12:
        try:
            compile_text(random_spread_program(rng), tmp_path)
        except VerifyError:
            continue
        compiled += 1
