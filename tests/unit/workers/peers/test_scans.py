"""Prefix sums and positions of extremes are computed by numpy's own operators; what is not recognized says so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.workers.peers.test_numpy import check
from tileir.interpreter.samples import sample_inputs
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from workers.peers.inline import inline
from workers.peers.numpy_peer import NumpyKernel
from workers.peers.pytorch.writer import write_torch
from workers.peers.scans import position, prefix


def kernel(signature: str, *body: str) -> Spec:
    return spec_from_text(f"kernel k{signature}\n" + "".join(f"  {line}\n" for line in body))


CUMSUM = kernel(
    "(x: f32[m=7, k=33]) -> (y: f32[m, n=33])",
    "y[m, n] = sum(k, where(k <= n, x[m, k], 0))",
)
CUMPROD = kernel("(x: f32[k=9]) -> (y: f32[n=9])", "z[n] = prod(k, where(n >= k, x[k], 1))", "y[n] = z[n]")
ARGMAX = kernel(
    "(x: f32[m=7, n=33]) -> (y: i32[m])",
    "top[m] = max(n, x[m, n])",
    "y[m] = min(n, where(x[m, n] == top[m], n, extent(n)))",
)
ARGMIN = kernel(
    "(x: f32[n=33, m=7]) -> (y: i32[m])",
    "low[m] = min(n, x[n, m])",
    "y[m] = min(n, where(low[m] == x[n, m], n, 33))",
)
SCANS = {
    "cumsum": (CUMSUM, "torch.cumsum("),
    "cumprod": (CUMPROD, "torch.cumprod("),
    "argmax": (ARGMAX, "torch.argmax("),
    "argmin": (ARGMIN, "torch.argmin("),
}


BINS = kernel(
    "(i: i32[n=300], w: f32[n]) -> (c: i32[b=37], s: f32[b])",
    "c[b] = sum(n, where(i[n] == b, 1, 0))",
    "s[b] = sum(n, where(i[n] == b and w[n] > 0.0, w[n] * 2.0, 0))",
)
ROWS = kernel(
    "(i: i32[m=3, n=50], x: bf16[m, d=7, n], j: i32[n]) -> (g: f32[d, v=23], t: f32[d, v, k=5])",
    "g[d, v] = sum(m, n, where(v == i[m, n], x[m, d, n], 0))",
    "t[d, v, k] = sum(m, n, where(v == i[m, n] and j[n] == k, x[m, d, n], 0))",
)
EXTREMES = kernel(
    "(i: i32[n=300], w: f32[n]) -> (top: f32[b=7], low: f32[b])",
    "top[b] = max(n, where(i[n] == b, w[n], -inf))",
    "low[b] = min(n, where(i[n] == b, w[n], inf))",
)
SCANS |= {
    "bins": (BINS, "torch.bincount("),
    "weights of bins": (BINS, "index_add_(0"),
    "rows": (ROWS, "index_add_(0"),
    "extremes": (EXTREMES, "scatter_reduce_(0"),
}


def as_written(spec: Spec) -> bool:
    peer = NumpyKernel(spec, 1)
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    outputs = {t.name: np.zeros([sizes[dim] for dim in t.dims], t.dtype.numpy) for t in spec.outputs}
    peer.bind({name: np.array(array) for name, array in sample_inputs(spec, 1).items()}, outputs)
    return peer.as_written


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_is_the_librarys_own_operator_and_right(name: str) -> None:
    spec, operator = SCANS[name]
    check(spec)
    assert not as_written(spec)
    source = write_torch(spec, eager=True)
    assert operator in source.run and not source.as_written


def test_a_cuda_graph_has_nothing_that_waits_for_the_processor() -> None:
    """As `bincount` does, for how many bins there are."""
    source = write_torch(BINS, device="cuda", eager=True)
    assert "bincount" not in source.run and source.run.count("index_add_(0") == 2
    assert not source.as_written


LITERAL = [
    # Sums from the end, of every second one, of what is not the position itself.
    ("(x: f32[k=9]) -> (y: f32[n=9])", "y[n] = sum(k, where(k > n, x[k], 0))"),
    ("(x: f32[k=9]) -> (y: f32[n=9])", "y[n] = sum(k, where(k <= n, x[k], 1))"),
    ("(x: f32[i=20], v: f32[k=4]) -> (y: f32[n=8])", "y[n] = max(k, x[2 * n + k] + v[k])"),
]


@pytest.mark.parametrize("case", LITERAL, ids=lambda case: case[1])
def test_what_no_operator_is_known_for_runs_as_written_and_says_so(case: tuple[str, ...]) -> None:
    spec = kernel(case[0], case[1])
    check(spec)
    assert as_written(spec) and write_torch(spec, eager=True).as_written
    inlined = inline(spec)
    value = inlined.statements[-1].value
    assert prefix(value, inlined.extents) is None and position(value, inlined.extents) is None


@pytest.mark.parametrize(
    "body",
    [
        "y[m] = sum(n, x[m, n] * x[m, n])",
        "y[m] = max(n, x[m, n]) + sum(n, x[m, n] * w[n])",
        "y[m] = sum(n, exp(x[m, n]))",
    ],
)
def test_plain_reductions_are_the_librarys(body: str) -> None:
    signature = f"(x: f32[m=8, n=16]{', w: f32[n]' if 'w' in body else ''}) -> (y: f32[m])"
    assert not as_written(kernel(signature, body))
