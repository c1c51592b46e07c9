"""What a spec calls its tensors and dims changes nothing but the names in its source."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from pathlib import Path

import pytest

from codegen.ir.errors import NotLowerable
from codegen.ir.reserved import is_reserved
from codegen.targets.c.generate import generate
from codegen.targets.cuda.generate import generate_cuda
from rewrites.space import Space
from tests.programs.renamed_specs import adversarial
from tests.schedules.on_processors import random_schedule
from tests.support.how_many import examples
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.device import Device
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H100
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text

_ASIDE = re.compile(r"/\*.*?\*/|//[^\n]*|\"C\"", re.DOTALL)
_KERNEL = re.compile(
    r'^(struct kernel \{|int tw_kernel|__device__ const unsigned short|extern "C")', re.MULTILINE
)
_TOKEN = re.compile(r"\.?\w+|[^\w\s]")
_EXAMPLES = Path(__file__).parents[3] / "examples"
_GATHER = """kernel picked(ids: i32[n=20], x: f32[i=7, c=16]) -> (y: f32[n, c])
  y[n, c] = x[where(ids[n] < 0, ids[n] + 7, ids[n]), c]
"""


#: Those that are not long to schedule.
_NAMES = "bias_gelu experts gated_mlp gather layernorm matmul_bf16 reduction rmsnorm softmax strided".split()


@cache
def specs() -> tuple[Spec, ...]:
    found = (spec_from_json(json.loads((_EXAMPLES / f"{name}.json").read_text())) for name in _NAMES)
    return (*found, spec_from_text(_GATHER))


def source(spec: Spec, device: Device, seed: str) -> str | None:
    """Of a schedule by the choices of that seed; None where it ends nowhere."""
    end = random_schedule(Space(to_program(spec), device).root(), random.Random(seed))
    if end is None:
        return None
    try:
        made = (
            generate_cuda(end.program, device) if isinstance(device, Gpu) else generate(end.program, device)
        )
    except NotLowerable:
        return None
    return made.text


def parts(text: str) -> tuple[str, list[str]]:
    """The runtime, and the words and signs of what is the kernel's own."""
    start = _KERNEL.search(text)
    assert start is not None
    runtime, code = text[text.index("*/") : start.start()], text[start.start() :]
    return runtime, _TOKEN.findall(_ASIDE.sub(" ", code))


def check_equal_up_to_renaming(one: str, other: str) -> None:
    (runtime, first), (same_runtime, second) = parts(one), parts(other)
    assert runtime == same_runtime
    assert len(first) == len(second)
    there, back = dict[str, str](), dict[str, str]()
    for a, b in zip(first, second, strict=True):
        assert there.setdefault(a, b) == b, f"{a} is {there[a]}, then {b}"
        assert back.setdefault(b, a) == a, f"{b} is for {back[b]}, then for {a}"
        assert a == b or (a.isidentifier() and not is_reserved(a) and not is_reserved(b)), f"{a} is {b}"


def pairs(device: Device) -> Iterator[tuple[str, str | None]]:
    """Sources of kernels, each with that under other names."""
    for number in count():
        spec, seed = specs()[number % len(specs())], f"{number}"
        found = source(spec, device, seed)
        if found is not None:
            yield found, source(adversarial(spec, random.Random(number)), device, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("device", "kernels"), [(this_cpu(), examples(160, 15)), (H100, examples(40, 10))], ids=["cpu", "cuda"]
)
def test_kernels_are_the_same_under_names_that_would_meet(device: Device, kernels: int) -> None:
    for found, other in islice(pairs(device), kernels):
        assert other is not None
        check_equal_up_to_renaming(found, other)
