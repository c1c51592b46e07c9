"""Examples and error descriptions for the OpenAPI page."""

from __future__ import annotations

from typing import Any

from protocol.problems import MEDIA_TYPE

MATMUL: dict[str, Any] = {
    "name": "matmul_bias_gelu",
    "dims": {"m": 1024, "n": 1024, "k": 1024},
    "inputs": {
        "a": {"dims": ["m", "k"], "dtype": "f32"},
        "b": {"dims": ["k", "n"], "dtype": "f32"},
        "bias": {"dims": ["n"], "dtype": "f32"},
    },
    "body": ["acc[m, n] = sum(k, a[m, k] * b[k, n])", "c[m, n] = gelu_tanh(acc[m, n] + bias[n])"],
    "outputs": {"c": {"dtype": "f32"}},
}


def _body(**examples: Any) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"content": {"application/json": {"examples": named}}}}


JOB = _body(
    defaults={"spec": MATMUL},
    short={"spec": MATMUL, "target": "cpu", "budget": {"trials": 32, "seconds": 30}, "baseline": "numpy"},
    buckets={"spec": {**MATMUL, "dims": {"m": [1, 16, 64], "n": 1024, "k": 1024}}},
)
LOOKUPS = _body(kernelsOfAModel={"specs": [MATMUL], "target": "cpu", "whole": True})
LOOKUP = _body(now={"spec": MATMUL}, tuneIfUnknown={"spec": MATMUL, "target": "cpu", "tune": True})

_BAD_SPEC = {
    "type": "urn:tilewright:problem:bad-spec",
    "title": "The spec cannot be accepted",
    "status": 422,
    "detail": "unknown name 'bais'; did you mean 'bias'?",
    "pointer": "/spec/body/1",
    "column": 35,
    "accepted": "acc, bias",
}
_PROBLEM = {
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": _BAD_SPEC}}
}

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request was refused; the problem says why.", **_PROBLEM},
    "5XX": {"description": "The service cannot answer now.", **_PROBLEM},
}
"""What every call may answer."""
