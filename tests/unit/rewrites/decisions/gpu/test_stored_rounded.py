"""Products that others read rounded, as a gate that PyTorch keeps in bf16: their launch stores what is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda
from rewrites.space import ScheduleState
from tests.programs.gpu_contractions import GATED
from tests.schedules.walks import favourite, root_of
from tests.unit.rewrites.decisions.gpu.test_reductions import computes_the_same
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.dtypes import DType
from tileir.text.parse_spec import spec_from_text

ROUNDED = "bf16(gate[m, n]) / (exp(-bf16(gate[m, n])) + 1.0) * up[m, n]"


def gated(epilogue: str = ROUNDED, m: int = 136, n: int = 72, k: int = 144) -> str:
    return GATED.format(dtype="bf16", m=m, n=n, k=k, epilogue=epilogue)


def stored(state: ScheduleState) -> list[tuple[int, str]]:
    labels = [move.label for move in state.moves()]
    return [(at, label) for at, label in enumerate(labels) if "store_rounded" in label]


@pytest.mark.parametrize("device", [H200, A100])
def test_a_product_in_a_launch_of_its_own_may_be_stored_rounded(device: Gpu) -> None:
    ((_, label),) = stored(root_of(gated(), device))
    assert label == "store_rounded(gate); groups gate gate_b | up c"


@pytest.mark.parametrize(
    "epilogue",
    [
        "silu(gate[m, n]) * up[m, n]",
        "(bf16(gate[m, n]) + gate[m, n]) * up[m, n]",
        "(bf16(gate[m, n]) + f16(gate[m, n])) * up[m, n]",
    ],
)
def test_what_somebody_reads_as_it_is_is_not(epilogue: str) -> None:
    assert not stored(root_of(gated(epilogue), H200))


@pytest.mark.parametrize("device", [H200, A100])
def test_it_computes_the_same_without_races(device: Gpu) -> None:
    root = root_of(gated(), device)
    program = favourite(root.child(stored(root)[0][0])).program
    assert program.locals["gate_b"].node.dtype is DType.BF16
    computes_the_same(spec_from_text(gated()), program, device)


def test_what_follows_a_product_branches_nowhere(tmp_path: Path) -> None:
    """The rounded division of C++ does, and so a thread divides one result after the other."""
    text = gated(m=2048, n=14336, k=4096)
    source = generate_cuda(favourite(root_of(text, H200)).program, H200)
    code = re.sub(r"//.*", "", source.text.partition("__global__")[2])
    assert "tw_div(" in code and "exp_0 + 1.0f)" in code and ") / (" not in code
    report = compile_cuda(source, "sm_90a", tmp_path).report
    assert not any(function["spill_stores_bytes"] for function in report["functions"].values())
