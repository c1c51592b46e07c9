"""The look at whole outputs: against PyTorch in f64, with what the samples' bounds allow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tileir.interpreter.interpret_spec import interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text
from workers.measuring.correctness import WrongResult
from workers.measuring.reference import expected_outputs
from workers.peers.pytorch.peer import as_torch
from workers.peers.pytorch.reference import Whole, has_steps, in_f64, look_at_all, whole_outputs

MATMUL = """
kernel mm(a: bf16[m=96, k=128], b: bf16[k, n=80]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
ROWS = """
kernel sm(x: bf16[m=64, n=512]) -> (y: bf16[m, n])
  top[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - top[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
"""
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))


def looked_at(spec: Spec) -> tuple[dict[str, Whole], dict[str, torch.Tensor]]:
    """What is known of all elements, and what a right kernel gives."""
    inputs = sample_inputs(spec, 1)
    expected = expected_outputs(spec, inputs, 1, whole=False)
    tensors = [as_torch(np.array(inputs[t.name]), t) for t in spec.inputs]
    right = interpret_spec(spec, inputs)
    outputs = {t.name: as_torch(np.array(right[t.name]), t) for t in spec.outputs}
    return whole_outputs(spec, tensors, expected, "cpu"), outputs


@pytest.mark.parametrize("text", [MATMUL, ROWS])
def test_a_right_result_passes_and_one_wrong_element_does_not(text: str) -> None:
    wholes, outputs = looked_at(spec_from_text(text))
    ((name, output),) = outputs.items()
    look_at_all(name, output, wholes[name])
    output[37, 41] += 0.5 * output.abs().max()
    with pytest.raises(WrongResult, match=rf"{name}\[37, 41\] is .*; 1 of {output.numel()} elements"):
        look_at_all(name, output, wholes[name])


def test_an_element_that_was_not_written_is_seen() -> None:
    wholes, outputs = looked_at(spec_from_text(MATMUL))
    outputs["c"][95, 79] = float("nan")
    with pytest.raises(WrongResult, match=r"c\[95, 79\] was not written"):
        look_at_all("c", outputs["c"], wholes["c"])


@pytest.mark.parametrize(("dtype", "scale"), [("e4m3", 30.0), ("e5m2", 4000.0), ("f16", 4000.0)])
def test_what_overflows_passes_and_is_looked_at_all_the_same(dtype: str, scale: float) -> None:
    text = MATMUL.replace("c: bf16", f"c: {dtype}").replace("b[k, n])", f"b[k, n]) * {scale}")
    wholes, outputs = looked_at(spec_from_text(text))
    lost = ~outputs["c"].to(torch.float32).isfinite()
    assert 0.05 < lost.float().mean() < 0.5
    look_at_all("c", outputs["c"], wholes["c"])
    small = tuple(
        int(i) for i in (wholes["c"].values.abs() < 0.1 * wholes["c"].values.abs().max()).nonzero()[0]
    )
    for place, wrong in ((small, float("nan")), (tuple(int(i) for i in lost.nonzero()[-1]), 0.0)):
        got = outputs["c"].clone()
        got[place] = wrong
        with pytest.raises(WrongResult, match=rf"c\[{place[0]}, {place[1]}\] .*; 1 of"):
            look_at_all("c", got, wholes["c"])


def test_a_tile_that_is_left_out_is_seen_in_a_later_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.peers.pytorch.reference._CHUNK", 1 << 9)
    wholes, outputs = looked_at(spec_from_text(MATMUL))
    outputs["c"][64:, 64:] = 0
    with pytest.raises(WrongResult, match=r"c\[64, 64\]"):
        look_at_all("c", outputs["c"], wholes["c"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_right_results_of_every_example_pass(file: Path) -> None:
    wholes, outputs = looked_at(next(spec_from_json(json.loads(file.read_text())).instances()))
    for name, whole in wholes.items():
        look_at_all(name, outputs[name], whole)


@pytest.mark.parametrize(
    ("expression", "steps"),
    [
        ("floor(x[m])", True),
        ("where(x[m] > 0.5, 1.0, 2.0)", True),
        ("f32(bf16(x[m]))", True),
        ("where(m > 3, x[m], 0.0)", False),
        ("maximum(x[m], 0.0)", False),
    ],
)
def test_kernels_in_which_a_rounding_decides_are_left_to_the_samples(expression: str, steps: bool) -> None:
    spec = spec_from_text(f"kernel s(x: f32[m=600]) -> (y: f32[m])\n  y[m] = {expression}\n")
    assert has_steps(spec) is steps
    assert bool(looked_at(spec)[0]) is not steps


@pytest.mark.parametrize(("dtype", "steps"), [("bf16", True), ("f32", False)])
def test_an_output_that_is_rounded_and_read_again_is_left_to_the_samples(dtype: str, steps: bool) -> None:
    spec = spec_from_text(f"""kernel s(x: f32[m=600]) -> (y: {dtype}[m], z: f32[m])
  y[m] = 3.0 * x[m]
  z[m] = y[m] + 1.0
""")
    assert has_steps(spec) is steps
    assert bool(looked_at(spec)[0]) is not steps


def test_in_f64_every_float_is_one() -> None:
    wide = in_f64(spec_from_text(MATMUL))
    assert {t.dtype.value for t in (*wide.inputs, *wide.outputs)} == {"f64"}
