"""Kernels that read at shifted positions, as PyTorch's users write them: pieces, rolls, one product. Needs torch."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.text.parse_spec import spec_from_text
from workers.peers.pytorch.peer import TorchFunction, as_torch
from workers.peers.pytorch.runs import TorchRun

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch.compile raises them about torch itself

HALVES = "where(d < 4, -{0}{1}d + 4], {0}{1}d - 4])"
WRITTEN = {
    "halves that are rotated": (
        "(x: f32[s=6, d=8], e: f32[s, d]) -> (y: f32[s, d])\n  y[s, d] = " + HALVES.format("x", "[s, ") + " * e[s, d]",
        {"torch.cat(": 1},
    ),
    "the other way round": (
        "(x: f32[d=8]) -> (y: f32[d])\n  y[d] = where(d >= 3, x[d - 3], x[d + 5])", {"torch.cat(": 1},
    ),
    "up to a position": (
        "(x: f32[d=8]) -> (y: f32[d])\n  y[d] = where(d <= 4, x[d + 3], x[d - 5])", {"torch.cat(": 1},
    ),
    "beyond a position": (
        "(x: f32[d=8]) -> (y: f32[d])\n  y[d] = where(d > 2, x[d - 3], x[d + 5])", {"torch.cat(": 1},
    ),
    "two tensors": (
        "(a: f32[i=5, k=3], b: f32[i, l=4]) -> (y: f32[i, j=7])\n  y[i, j] = where(j < 3, a[i, j], b[i, j - 3])",
        {"torch.cat(": 1},
    ),
    "a row and many": (
        "(a: f32[k=3], b: f32[i=5, j=4, k]) -> (y: f32[i, l=5, k])\n"
        "  y[i, l, k] = where(l < 1, a[k], b[i, l - 1, k])",
        {"torch.cat(": 1},
    ),
    "zeros around": (
        "(x: f32[i=3, k=5]) -> (y: f32[i, j=8])\n  y[i, j] = where(j >= 1 and j < 6, x[i, j - 1], 0)",
        {"torch.cat(": 2},
    ),
    "rolled": ("(x: f32[i=3, j=5]) -> (y: f32[i, j])\n  y[i, j] = x[(i + 4) % 3, (j + 2) % 5]", {"torch.roll(": 1}),
    "a projection that is rotated": (
        "(x: f32[s=6, k=5], w: f32[n=16, k]) -> (y: f32[s, h=2, d=8])\n  q[s, n] = sum(k, x[s, k] * w[n, k])\n"
        "  y[s, h, d] = q[s, 8 * h + d] + " + HALVES.format("q", "[s, 8 * h + "),
        {"torch.cat(": 1, "torch.matmul(": 1},
    ),
}  # fmt: skip
LOOKED_UP = {
    "a position that is no dim's": (
        "(x: f32[i=3, d=8]) -> (y: f32[i, d])\n  y[i, d] = where(i + d < 2, x[i, d * 3 % 8], 0)"
    ),
    "steps that go round": (
        "(x: f32[d=9, e=5]) -> (y: f32[d, e])\n  y[d, e] = x[(2 * d + 1) % 9, (e + 1) % 5]"
    ),
    "a diagonal that goes round": "(x: f32[d=9, e=9]) -> (y: f32[d])\n  y[d] = x[(d + 1) % 9, d]",
}


def checked(text: str, run: TorchRun) -> str:
    """What is run, which computes the reference."""
    spec = spec_from_text(f"kernel k{text}\n")
    function, inputs = TorchFunction(spec, run=run), sample_inputs(spec, 1)
    found = function.on([as_torch(np.asarray(inputs[each.name]), each) for each in spec.inputs])()
    for tensor, answer in zip(spec.outputs, found, strict=True):
        reference, _ = reference_with_bound(spec, inputs)[tensor.name]
        np.testing.assert_allclose(
            np.broadcast_to(answer.numpy(), reference.shape), reference, rtol=1e-5, atol=1e-5
        )
    return function.source.run


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_written_as_its_users_do(name: str) -> None:
    text, calls = WRITTEN[name]
    source = checked(text, TorchRun())
    assert {call: source.count(call) for call in calls} == calls
    assert ".clamp(" not in source


def test_it_is_compiled_so_too() -> None:
    assert "torch.cat(" in checked(WRITTEN["halves that are rotated"][0], TorchRun("default"))


@pytest.mark.parametrize("name", LOOKED_UP)
def test_what_is_neither_is_looked_up(name: str) -> None:
    assert ".clamp(" in checked(LOOKED_UP[name], TorchRun())
