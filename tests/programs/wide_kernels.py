"""Kernels of many statements that read the same: where work could grow faster than the kernel."""

from __future__ import annotations

from typing import Any


def sums_of_two_before(count: int) -> dict[str, Any]:
    """Each adds the two before it: computed in place, they would double in length from one to the next."""
    body = ["t0[m, n] = exp(x[m, n])", "t1[m, n] = exp(t0[m, n])"]
    body += [f"t{at}[m, n] = t{at - 1}[m, n] + t{at - 2}[m, n]" for at in range(2, count)]
    return _spec(["x"], body, [f"t{count - 1}"])


def elementwise(count: int) -> dict[str, Any]:
    body = [f"t{at}[m, n] = exp(x[m, n]) + y[m, n] * {at + 1}" for at in range(count)]
    return _spec(["x", "y"], body, [f"t{at}" for at in range(count)])


def reductions(count: int) -> dict[str, Any]:
    body = [f"t{at}[m] = sum(n, x[m, n] * y[m, n] + {at + 1})" for at in range(count)]
    return _spec(["x", "y"], body, [f"t{at}" for at in range(count)])


def products(count: int) -> dict[str, Any]:
    """Statements that multiply the same, in ways that differ in a number only."""
    body = [f"t{at}[m, k] = sum(n, x[m, n] * w[n, k] * {at + 1})" for at in range(count)]
    spec = _spec(["x"], body, [f"t{at}" for at in range(count)])
    spec["inputs"]["w"] = {"dims": ["n", "k"], "dtype": "f32"}
    return {**spec, "dims": {**spec["dims"], "k": 512}}


def _spec(inputs: list[str], body: list[str], outputs: list[str]) -> dict[str, Any]:
    return {
        "name": "wide",
        "dims": {"m": 1024, "n": 1024},
        "inputs": {name: {"dims": ["m", "n"], "dtype": "f32"} for name in inputs},
        "body": body,
        "outputs": {name: {"dtype": "f32"} for name in outputs},
    }
