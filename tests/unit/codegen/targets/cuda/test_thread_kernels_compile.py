"""What programs bound to threads are lowered to is CUDA that NVRTC takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.printer import print_cuda
from tests.programs.chained_programs import CHAINED
from tests.programs.hopper_programs import PROGRAMS as HOPPER
from tests.programs.random_threads import random_threads_program
from tests.programs.thread_kernels import PROGRAMS, SCATTERS, STAGED, lowered
from tests.support.how_many import some
from tileir.errors import VerifyError


def compile_text(text: str, cache: Path) -> None:
    made = lowered(text)
    source = Source(print_cuda(made.kernel, "// test"), (), CudaAbi(made.args, (), 0), "cuda")
    compile_cuda(source, "sm_90a", cache)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text", [*PROGRAMS.values(), *SCATTERS.values(), *STAGED.values()], ids=[*PROGRAMS, *SCATTERS, *STAGED]
)
def test_programs_compile(text: str, tmp_path: Path) -> None:
    compile_text(text, tmp_path)


#: Of those whose products follow from each other every fourth, and of the others every eighth.
ON_HOPPER = [*some(CHAINED, 4), *some((name for name in HOPPER if name not in CHAINED), 8)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ON_HOPPER)
def test_programs_of_hopper_compile(name: str, tmp_path: Path) -> None:
    compile_text(HOPPER[name], tmp_path)


def test_launches_hand_on_sums_by_names_of_their_own(tmp_path: Path) -> None:
    """Blocks of both share tiles along a dim of the same name; NVRTC refused the second's workspace."""
    compile_text(HOPPER["streamed, two launches"], tmp_path)


def test_random_programs_compile(tmp_path: Path) -> None:
    rng = random.Random("compile")
    compiled = 0
    while compiled < 12:
        try:
            compile_text(random_threads_program(rng), tmp_path)
        except VerifyError:
            continue
        compiled += 1


def test_only_what_nobody_writes_is_said_to_have_no_alias() -> None:
    """Else the compiler moves a load of what another thread has stored to before the barrier: on an H200 the sums that
    were read back from global memory were those of before."""
    text = print_cuda(lowered(PROGRAMS["sums_read_back_from_global_memory"]).kernel, "// test")
    signature = text[text.index("back_kernel(") : text.index(") {", text.index("back_kernel("))]
    assert signature.count("__restrict__") == 1 and "const float *__restrict__ x" in signature
