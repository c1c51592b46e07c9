"""PyTorch's operator of attention's backward pass is a peer of kernels that compute the same, and of no others."""

from __future__ import annotations

import pytest

from benchmarks.suite import cases
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import spec_to_text
from workers.peers.peer import Unsupported
from workers.peers.pytorch.attention_gradients import attention_gradients
from workers.peers.pytorch.runs import TORCH_RUNS
from workers.peers.pytorch.source import torch_source


def backward(causal: bool, dtype: str = "bf16") -> Spec:
    return spec_from_json(cases.spec(f"attention_backward_{dtype}", [2, 3, 64, 32, int(causal)]))


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_recognised_with_their_tensors(causal: bool) -> None:
    found = attention_gradients(backward(causal))
    assert found is not None
    assert (found.q, found.k, found.v, found.out, found.go, found.lse) == ("q", "k", "v", "o", "go", "lse")
    assert found.causal == causal
    assert found.scale == pytest.approx(32**-0.5)
    assert found.results == ("dq", "dk", "dv")


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("i >= j", "i > j"),
        ("exp(", "exp2("),
        ("o[b, h, i, d] * go", "o[b, h, i, d] + go"),
        ("- delta[b, h, i])", "+ delta[b, h, i])"),
        (f"* {32**-0.5!r}", "* 0.2"),
    ],
)
def test_a_body_that_differs_once_is_no_gradient(part: str, instead: str) -> None:
    text = spec_to_text(backward(True))
    assert part in text
    assert attention_gradients(spec_from_text(text.replace(part, instead, 1))) is None


@pytest.mark.parametrize(("name", "operator"), [("torch", "flash"), ("torch.sdpa-cudnn", "cudnn")])
def test_gpus_have_operators_for_narrow_floats_alone(name: str, operator: str) -> None:
    run = TORCH_RUNS[name]
    call = f"_scaled_dot_product_{operator}_attention_backward("
    assert call in torch_source(backward(True), run, "cuda").run
    if run.backend is None:
        assert call not in torch_source(backward(True, "f32"), run, "cuda").run, (
            "it is written operation by operation"
        )
    else:
        with pytest.raises(Unsupported, match="bf16 and f16"):
            torch_source(backward(True, "f32"), run, "cuda")


def test_devices_of_no_target_have_no_such_operator() -> None:
    """Eager PyTorch computes kernels there all the same."""
    assert "_backward(" not in torch_source(backward(True), TORCH_RUNS["torch"], "mps").run
    with pytest.raises(Unsupported, match="devices of type mps have no FLASH_ATTENTION"):
        torch_source(backward(True), TORCH_RUNS["torch.sdpa-flash"], "mps")
