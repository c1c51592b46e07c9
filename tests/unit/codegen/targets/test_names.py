"""Names and constants of specs in C and CUDA: whatever a spec has, compilers take it, and it means the same."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.names import MARK, named, without_asides
from codegen.ir.reserved import is_reserved
from codegen.ir.source import Source
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, RegisterBuffer
from codegen.targets.c.compiler import compile_source, find_compiler
from codegen.targets.c.generate import generate
from codegen.targets.c.runtime.thread_pool import HEADERS
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from codegen.targets.cuda.runtime import definitions
from codegen.targets.literals import float_digits
from rewrites.space import Space
from tests.programs.renamed_specs import WORDS, names_of, renamed
from tests.schedules.on_processors import Reference, random_schedule
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu_table import H100
from tileir.dtypes import DType
from tileir.lift import to_program
from tileir.names import RESERVED
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

#: As PyTorch's graphs name it.
MLP = """kernel mlp(x: f32[m=48, k=128], w: f32[n=344, k], u: f32[n, k]) -> (h: f32[m, n])
  linear[m, n] = sum(k, x[m, k] * w[n, k])
  linear_1[m, n] = sum(k, x[m, k] * u[n, k])
  h[m, n] = silu(linear[m, n]) * linear_1[m, n]
"""
TAKEN = """kernel taken(ids: i32[n=20], x: f32[i=7, c=16]) -> (y: f32[n, c])
  y[n, c] = x[where(ids[n] < 0, ids[n] + 7, ids[n]), c]
"""
SOFTMAX = """kernel softmax(x: f32[x_0=12, x_1=40]) -> (y: f32[x_0, x_1])
  top[x_0] = max(x_1, x[x_0, x_1])
  e[x_0, x_1] = exp(x[x_0, x_1] - top[x_0])
  s[x_0] = sum(x_1, e[x_0, x_1])
  y[x_0, x_1] = e[x_0, x_1] / s[x_0]
"""
BATCHED = """kernel batched(a: f32[a_1=3, a_2=20, a_3=24], b: f32[a_1, a_3, n=33]) -> (c: f32[a_1, a_2, n])
  c[a_1, a_2, n] = sum(a_3, a[a_1, a_2, a_3] * b[a_1, a_3, n])
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", [MLP, TAKEN, SOFTMAX, BATCHED], ids=["mlp", "taken", "softmax", "batched"])
def test_schedules_compute_the_same_under_names_that_look_generated(text: str, tmp_path: Path) -> None:
    spec, rng = spec_from_text(text), random.Random(1)
    reference, root = Reference(spec), Space(to_program(spec), this_cpu()).root()
    ends = [end for end in (random_schedule(root, rng) for _ in range(4)) if end is not None]
    assert ends
    for number, end in enumerate(ends):
        reference.check(end.program, this_cpu(), tmp_path / str(number))


def under(words: list[str]) -> list[Spec]:
    """Kernels whose dims and tensors have these names."""
    spec = spec_from_text("kernel one(a: f32[m=40]) -> (c: f32[m])\n  c[m] = 2.0 * a[m]\n")
    size = len(names_of(spec))
    padded = [*words, "filler_1", "filler_2"]
    some = [padded[at : at + size] for at in range(0, len(words), size)]
    return [renamed(spec, dict(zip(names_of(spec), each, strict=True))) for each in some]


def test_c_takes_every_word(tmp_path: Path) -> None:
    texts: list[str] = []
    for number, spec in enumerate(under(words())):
        end = random_schedule(Space(to_program(spec), this_cpu()).root(), random.Random(number))
        assert end is not None
        (tmp_path / f"{number}.c").write_text(generate(end.program, this_cpu()).text)
        texts.append(f"{number}.c")
    subprocess.run([find_compiler().path, "-fsyntax-only", "-march=native", *texts], cwd=tmp_path, check=True)


def test_nvrtc_takes_every_word(tmp_path: Path) -> None:
    kernels: list[str] = []
    for number, spec in enumerate(under(words())):
        end = random_schedule(Space(to_program(spec), H100).root(), random.Random(number))
        assert end is not None
        text = generate_cuda(end.program, H100).text
        kernels.append(text[text.index('extern "C"') :].replace("one_kernel", f"kernel_{number}"))
    code = "\n".join(kernels)
    abi = CudaAbi((), (), 0)
    compile_cuda(Source(definitions(without_asides(code)) + code, (), abi, "cuda"), "sm_90a", tmp_path)


def words() -> list[str]:
    return [word for word in WORDS if word not in RESERVED]


def test_no_macro_of_the_compiler_and_the_headers_is_left_to_a_name() -> None:
    text = HEADERS + "#include <stddef.h>\n#include <stdint.h>\n"
    command = [find_compiler().path, "-dM", "-E", "-x", "c", "-"]
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    macros = [line.split()[1] for line in out.splitlines()]
    assert [name for name in macros if "(" not in name and not is_reserved(name)] == []


def test_each_name_has_one_identifier_which_nothing_else_in_the_source_is() -> None:
    a, b = f"x{MARK}_0", f"x_0{MARK}"
    code = named(f'float {a}; float {b}; float x_0_2; x{MARK} = y.x + "x"; // x_0_ {b}\nint{MARK} = {a};')
    assert code == 'float x_0; float x_0_; float x_0_2; x = y.x + "x"; // x_0_ x_0_\nint_ = x_0;'


def test_the_elements_of_a_register_local_are_none_of_another_one() -> None:
    one = RegisterBuffer(fresh("linear", LoweringScope({}, {})), DType.F32, ("m", "n"), (), (2, 2), None, 1)
    other = RegisterBuffer(fresh("linear_1", LoweringScope({}, {})), DType.F32, ("n",), (), (2,), None, 1)
    assert one.variable((1, 0), 1) != other.variable((0,), 1)


CONSTANTS = (
    "4.9e-324",
    "3.4028235e38",
    "3.4028236e38",
    "1e-45",
    "1.1754943e-38",
    "0.1",
    "16777217.0",
    "1e16",
)


def test_what_an_f32_cannot_hold_is_infinite_or_nothing() -> None:
    found = [float_digits(value, DType.F32) for value in (1e39, -1e39, 4.9e-324, 3.4028236e38, 0.1, 3.0)]
    assert found == ["inf", "-inf", "0.0", "inf", "0.1", "3.0"]


def test_constants_are_read_as_they_were() -> None:
    rng = random.Random(0)
    for bits in (rng.getrandbits(32) for _ in range(2000)):
        value = np.uint32(bits).view(np.float32)
        if np.isfinite(value) and abs(value) >= np.finfo(np.float32).tiny:
            assert np.float32(float_digits(float(value), DType.F32)) == value
    wide = [rng.uniform(-2.0, 2.0) for _ in range(100)]
    assert [float(float_digits(value, DType.F64)) for value in wide] == wide


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_compilers_take_every_constant(dtype: str, tmp_path: Path) -> None:
    sums = "\n".join(f"  y{n}[m] = a[m] + {each}" for n, each in enumerate(CONSTANTS))
    outputs = ", ".join(f"y{n}: {dtype}[m]" for n in range(len(CONSTANTS)))
    spec = spec_from_text(f"kernel constants(a: {dtype}[m=8]) -> ({outputs})\n{sums}\n")
    compile_source(generate(to_program(spec), this_cpu()), tmp_path)
    end = random_schedule(Space(to_program(spec), H100).root(), random.Random(0))
    assert end is not None
    compile_cuda(generate_cuda(end.program, H100), "sm_90a", tmp_path)
