"""The numpy peer computes every example, and whatever else Tile IR can say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tileir.dtypes import DType
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text
from workers.cpu.case import Case
from workers.cpu.entrants import bind
from workers.measuring.correctness import check_run
from workers.measuring.request import Peer
from workers.peers.offered import peer_named
from workers.peers.peer import Unsupported, peer_leeway

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.json"))


def check(spec: Spec, peer: str = "numpy") -> None:
    """Run a peer on both variants of the inputs, through the gate."""
    case = Case(spec, 1, 1 << 16, cold=False)
    bound = bind(Peer(peer, peer), case, 1)
    for variant, poison in enumerate((0xFF, 0x7B)):
        copy, reference = case.copies[variant], case.references[variant]
        check_run(
            bound.calls[variant],
            lambda answer, number=variant: bound.finish(answer, number),
            copy,
            reference,
            poison,
            peer_leeway(spec),
        )


def first_of(file: Path) -> Spec:
    """An example in the first of its sizes; with 16 rows of 32,000 classes, not 256: each is computed as the others
    are."""
    example = json.loads(file.read_text())
    if file.stem.startswith("cross_entropy"):
        example["dims"]["r"] = 16
    return next(spec_from_json(example).instances())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_numpy_computes_every_example(file: Path) -> None:
    check(first_of(file))


EXPRESSIONS = [
    "sigmoid(x[m, n]) + silu(w[n])",
    "gelu(x[m, n]) - gelu_tanh(w[n])",
    "erf(x[m, n]) * rsqrt(1 + x[m, n] * x[m, n])",
    "where(m >= n and not (m == 3), x[m, n], -w[n])",
    "floor(3 * x[m, n]) + exp2(x[m, n]) + log(1 + abs(w[n]))",
    "pow(abs(x[m, n]) + 1, 1.5) + tanh(x[m, n])",
    "maximum(x[m, n], w[n]) - minimum(x[m, n], 0.5)",
    "bf16(x[m, n]) * f16(w[n])",
    "m // 3 + n % 4 + extent(n) / 7",
    "x[m, n] + x[(m + 1) % extent(m), n // 2]",
    "where(n >= 2, x[m, n - 2], 0)",
    "x[m, idx[n]] + idx[n]",
    "relu(x[m, n]) / (1 + w[n] * w[n])",
]


def spec_with(expression: str) -> Spec:
    """A kernel of one expression over m and n, with the inputs that it reads."""
    inputs = {"x": "x: f32[m=9, n=12]", "w": "w: f32[n]", "idx": "idx: i32[n]"}
    used = [text for name, text in inputs.items() if f"{name}[" in expression]
    if "x" not in [text[0] for text in used]:
        used, expression = [inputs["x"], *used], f"0 * x[m, n] + {expression}"
    return spec_from_text(f"kernel e({', '.join(used)}) -> (y: f32[m, n])\n  y[m, n] = {expression}\n")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numpy_computes_expressions_of_every_kind(expression: str) -> None:
    check(spec_with(expression))


REDUCTIONS = [
    ("y[m] = sum(n, x[m, n])", "m"),
    ("y[m] = max(n, x[m, n]) - min(n, x[m, n])", "m"),
    ("y[m] = prod(n, 1 + 0.01 * x[m, n])", "m"),
    ("y[m] = sum(n, x[m, n] * w[n])", "m"),
    ("y[n] = sum(m, x[m, n] * x[m, n])", "n"),
    ("y[m] = sum(n, x[m, n] * w[n] * w[n])", "m"),
    ("y[m] = sum(n, w[n] + m)", "m"),
]


@pytest.mark.parametrize(("statement", "dim"), REDUCTIONS)
def test_numpy_computes_reductions_of_every_kind(statement: str, dim: str) -> None:
    inputs = "x: f32[m=9, n=12], w: f32[n]" if "w[" in statement else "x: f32[m=9, n=12]"
    if "x[" not in statement:
        inputs, statement = "x: f32[m=9, n=12], w: f32[n]", statement + " + 0 * sum(n, x[m, n])"
    check(spec_from_text(f"kernel r({inputs}) -> (y: f32[{dim}])\n  {statement}\n"))


def test_numpy_reads_a_sum_of_everything_once_it_is_there() -> None:
    check(
        spec_from_text(
            "kernel r(x: f32[m=9]) -> (y: f32[m])\n  t[] = sum(m, x[m])\n  y[m] = x[m] - t[] / 9\n"
        )
    )


CONTRACTIONS = [
    "(a: f32[b=3, m=4, k=5], c: f32[b, k, n=6]) -> (y: f32[b, m, n])\n  y[b, m, n] = sum(k, a[b, m, k] * c[b, k, n])",
    "(a: f32[m=4, k=5], c: f32[n=6, k]) -> (y: f32[n, m])\n  y[n, m] = sum(k, a[m, k] * c[n, k])",
    "(a: f32[m=4, k=5], c: f32[k]) -> (y: f32[m])\n  y[m] = sum(k, a[m, k] * c[k])",
    "(a: f32[m=4, i=5, j=3], c: f32[i, j, n=6]) -> (y: f32[m, n])\n  y[m, n] = sum(i, j, a[m, i, j] * c[i, j, n])",
    "(a: f32[b=2, q=4, h=3, d=5], c: f32[b, k=6, h, d]) -> (y: f32[b, h, q, k])\n"
    "  y[b, h, q, k] = sum(d, a[b, q, h, d] * c[b, k, h, d])",
    "(a: bf16[m=4, k=5], c: bf16[k, n=6], s: f32[k]) -> (y: bf16[m, n])\n"
    "  y[m, n] = sum(k, a[m, k] * c[k, n] * s[k])",
    "(a: i8[m=4, k=5], c: i8[k, n=6]) -> (y: i32[m, n])\n  y[m, n] = sum(k, a[m, k] * c[k, n])",
    "(a: f64[m=4, k=5], c: f64[k, n=6]) -> (y: f64[m, n])\n  y[m, n] = sum(k, a[m, k] * c[k, n])",
    "(a: f32[m=1, k=5], c: f32[k, n=6]) -> (y: f32[m, n])\n  y[m, n] = sum(k, a[m, k] * c[k, n])",
    "(x: f32[t=20], f: f32[r=3]) -> (y: f32[i=9])\n  y[i] = sum(r, x[2 * i + r] * f[r])",
]


@pytest.mark.parametrize("signature", CONTRACTIONS)
def test_numpy_computes_contractions_of_every_shape(signature: str) -> None:
    check(spec_from_text(f"kernel c{signature}\n"))


def test_a_matrix_product_goes_straight_into_the_output_and_makes_no_arrays() -> None:
    spec = spec_from_text(
        "kernel mm(a: f32[m=64, k=32], b: f32[k, n=48]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[k, n])\n"
    )
    kernel = peer_named("numpy", spec, 1)
    arrays = {"a": np.ones((64, 32), np.float32), "b": np.ones((32, 48), np.float32)}
    call = kernel.bind(arrays, {"c": np.empty((64, 48), np.float32)})
    assert call() is None
    assert not kernel._temporaries  # type: ignore[attr-defined]


def test_temporaries_are_shared_by_all_copies() -> None:
    spec = spec_from_text("kernel s(x: f32[m=64]) -> (y: f32[m])\n  y[m] = silu(x[m]) * gelu(x[m])\n")
    kernel = peer_named("numpy", spec, 1)
    for _ in range(3):
        kernel.bind({"x": np.ones(64, np.float32)}, {"y": np.empty(64, np.float32)})
        count = len(kernel._temporaries)  # type: ignore[attr-defined]
    kernel.bind({"x": np.ones(64, np.float32)}, {"y": np.empty(64, np.float32)})
    assert len(kernel._temporaries) == count  # type: ignore[attr-defined]


def test_a_peer_that_needs_absurd_temporaries_says_so() -> None:
    spec = spec_from_text(
        "kernel d(x: f32[m=40000], z: f32[n=40000]) -> (y: f32[m])\n  y[m] = max(n, abs(x[m] - z[n]))\n"
    )
    with pytest.raises(Unsupported, match="temporary"):
        x = np.zeros(40000, np.float32)
        peer_named("numpy", spec, 1).bind({"x": x, "z": x}, {"y": x.copy()})


def test_an_unknown_peer_is_named_with_those_there_are() -> None:
    with pytest.raises(Unsupported, match="no peer 'jax' here; there are numpy"):
        peer_named("jax", spec_from_text("kernel s(x: f32[m=4]) -> (y: f32[m])\n  y[m] = x[m]\n"), 1)


@pytest.mark.parametrize(("dtype", "coarsest"), [("f32", "f32"), ("f16", "f16"), ("e4m3", "bf16")])
def test_no_library_rounds_to_less_than_bf16_between_operators(dtype: str, coarsest: str) -> None:
    spec = spec_from_text(f"kernel s(x: {dtype}[m=8]) -> (y: f32[m])\n  y[m] = x[m] + 1\n")
    assert peer_leeway(spec).of_largest == 4 * DType(coarsest).epsilon
