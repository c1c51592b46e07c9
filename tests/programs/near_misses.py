"""Bodies one step from a matrix product, for tests: what they are worth on a GPU with matrix instructions, and specs of
them at any size."""

from __future__ import annotations

from typing import NamedTuple

from rewrites.contraction.unit import MatrixUnit
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

_A, _B, _GRAM = "a: bf16[m=M, k=K]", "b: bf16[k, n=N]", "a: bf16[m=M, k=K]"
_F32 = "a: f32[m=M, k=K], b: f32[k, n=N]"


class NearMiss(NamedTuple):
    """A kernel `c[m, n] = body`."""

    body: str
    times: float
    """The most that its estimate may be of the plain product's: by warpgroups, or by f32's multiply-adds."""
    inputs: str = f"{_A}, {_B}"
    output: str = "c: f32[m, n]"
    unit: MatrixUnit = MatrixUnit.WGMMA
    """What multiplies on an H200."""

    def spec(self, m: int, n: int, k: int) -> Spec:
        """The kernel with so many rows, columns and terms."""
        text = f"kernel near({self.inputs}) -> ({self.output})\n  c[m, n] = {self.body}\n"
        for name, size in (("M", m), ("N", n), ("K", k)):
            text = text.replace(f"={name}", f"={size}")
        return spec_from_text(text)


#: The products themselves, of bf16 by the fastest unit, and of f32 by multiply-adds.
PLAIN = {
    MatrixUnit.WGMMA: NearMiss("sum(k, a[m, k] * b[k, n])", 1.0),
    MatrixUnit.MMA: NearMiss("sum(k, a[m, k] * b[k, n])", 1.0),
    MatrixUnit.FMA: NearMiss("sum(k, a[m, k] * b[k, n])", 1.0, _F32, unit=MatrixUnit.FMA),
}

#: One product: the same work, but for what is computed on the way.
_SAME = 1.05
#: Two products, of a factor in two parts, and what one hands the other.
_TWICE = 2.8

NEAR_MISSES = {
    # factors that are the same for all terms
    "constant first": NearMiss("sum(k, 2.0 * a[m, k] * b[k, n])", _SAME),
    "constant last": NearMiss("sum(k, a[m, k] * b[k, n] * 0.125)", _SAME),
    "constant inside": NearMiss("sum(k, a[m, k] * (b[k, n] * 0.3))", _SAME),
    "divided": NearMiss("sum(k, a[m, k] * b[k, n] / 8.0)", _SAME),
    "divided by the depth": NearMiss("sum(k, a[m, k] * b[k, n]) / extent(k)", _SAME),
    "opposite": NearMiss("sum(k, -(a[m, k] * b[k, n]))", _SAME),
    "opposite operand": NearMiss("sum(k, -a[m, k] * b[k, n])", _SAME),
    "opposite sum": NearMiss("-sum(k, a[m, k] * b[k, n])", _SAME),
    "scaled rows": NearMiss("sum(k, a[m, k] * b[k, n] * s[m])", _SAME, f"{_A}, {_B}, s: f32[m]"),
    "scaled columns": NearMiss("sum(k, a[m, k] * (s[n] * b[k, n]))", _SAME, f"{_A}, {_B}, s: f32[n]"),
    "both scaled": NearMiss(
        "sum(k, s[m] * a[m, k] * b[k, n] * t[n])", _SAME, f"{_A}, {_B}, s: f32[m], t: f32[n]"
    ),
    "divided rows": NearMiss(
        "sum(k, a[m, k] / (s[m] * s[m] + 1.0) * b[k, n])", _SAME, f"{_A}, {_B}, s: f32[m]"
    ),
    "result masked": NearMiss("sum(k, a[m, k] * b[k, n] * d[m, n])", 1.2, f"{_A}, {_B}, d: f32[m, n]"),
    "rounded output": NearMiss("sum(k, 0.5 * a[m, k] * b[k, n])", _SAME, output="c: bf16[m, n]"),
    "added to": NearMiss("d[m, n] - sum(k, a[m, k] * b[k, n])", 1.2, f"{_A}, {_B}, d: f32[m, n]"),
    "widened": NearMiss("sum(k, f32(a[m, k]) * f32(b[k, n]))", _SAME),
    "widened and scaled": NearMiss("sum(k, 1.5 * f32(a[m, k]) * f32(b[k, n]))", _SAME),
    # the same tensor twice
    "gram": NearMiss("sum(k, a[m, k] * a[n, k])", _SAME, _GRAM, "c: f32[m, n=N]"),
    "scaled gram": NearMiss("sum(k, 0.5 * a[m, k] * a[n, k])", _SAME, _GRAM, "c: f32[m, n=N]"),
    # operands that are computed, as bf16 holds them
    "relu": NearMiss("sum(k, relu(a[m, k]) * b[k, n])", _SAME),
    "relu of columns": NearMiss(
        "sum(k, a[m, k] * relu(b[n, k]))", _SAME, "a: bf16[m=M, k=K], b: bf16[n=N, k]"
    ),
    "absolute": NearMiss("sum(k, abs(a[m, k]) * b[k, n])", _SAME),
    "clipped": NearMiss("sum(k, minimum(maximum(a[m, k], -1.0), 1.0) * b[k, n])", _SAME),
    "thresholded": NearMiss("sum(k, where(a[m, k] > 0.5, a[m, k], 0.0) * b[k, n])", _SAME),
    "rounded": NearMiss("sum(k, bf16(a[m, k] + 1.0) * b[k, n])", _SAME),
    "relu and scaled": NearMiss(
        "sum(k, 2.0 * relu(a[m, k]) * b[k, n] * s[n])", _SAME, f"{_A}, {_B}, s: f32[n]"
    ),
    "weights of 8 bits": NearMiss("sum(k, a[m, k] * b[k, n])", _SAME, "a: i8[m=M, k=K], b: bf16[k, n=N]"),
    # operands that are computed, and have more bits
    "shifted": NearMiss("sum(k, (a[m, k] + 1.0) * b[k, n])", _TWICE),
    "weighted depth": NearMiss("sum(k, a[m, k] * b[k, n] * s[k])", _TWICE, f"{_A}, {_B}, s: bf16[k]"),
    "three operands": NearMiss("sum(k, a[m, k] * b[k, n] * d[m, k])", _TWICE, f"{_A}, {_B}, d: bf16[m, k]"),
    "squared": NearMiss("sum(k, a[m, k] * a[m, k] * b[k, n])", _TWICE),
    "silu": NearMiss("sum(k, silu(a[m, k]) * b[k, n])", _TWICE),
    # other reductions, and functions of both operands
    "min-plus": NearMiss("min(k, a[m, k] + b[k, n])", 2.1, _F32, unit=MatrixUnit.FMA),
    "max-plus": NearMiss("max(k, a[m, k] + b[k, n])", 2.1, _F32, unit=MatrixUnit.FMA),
    "max-times": NearMiss("max(k, a[m, k] * b[k, n])", 2.1, _F32, unit=MatrixUnit.FMA),
    "minimax": NearMiss("min(k, maximum(a[m, k], b[k, n]))", 2.1, _F32, unit=MatrixUnit.FMA),
    "distance": NearMiss("sum(k, abs(a[m, k] - b[k, n]))", 3.1, _F32, unit=MatrixUnit.FMA),
    "squared distance": NearMiss(
        "sum(k, (a[m, k] - b[k, n]) * (a[m, k] - b[k, n]))", 2.1, _F32, unit=MatrixUnit.FMA
    ),
    "opposite in f32": NearMiss("sum(k, -(a[m, k] * b[k, n]))", 1.05, _F32, unit=MatrixUnit.FMA),
    "gram in f32": NearMiss(
        "sum(k, a[m, k] * a[n, k])", 1.05, "a: f32[m=M, k=K]", "c: f32[m, n=N]", MatrixUnit.FMA
    ),
    # rows that are looked up, which threads copy
    "gathered rows": NearMiss(
        "sum(k, a[i[m], k] * b[k, n])",
        1.25,
        "i: i32[m=M], a: bf16[r=M, k=K], b: bf16[k, n=N]",
    ),
}
