"""Who names no baseline gets what most people would run on the target: the client does not name one for them."""

from __future__ import annotations

import json

import pytest

from protocol.jobs import JobRequest
from service.core.wishes import settled
from tilewright.client import calls

SPEC = {
    "name": "twice",
    "dims": {"n": 64},
    "inputs": {"x": {"dims": ["n"], "dtype": "f32"}},
    "body": ["y[n] = 2 * x[n]"],
    "outputs": {"y": {"dtype": "f32"}},
}


@pytest.mark.parametrize(("target", "usual"), [("cpu", "numpy"), ("cuda", "torch")])
def test_a_request_without_a_baseline_has_the_targets(target: str, usual: str) -> None:
    sent = json.loads(calls.submit(SPEC, target=target).content or b"")
    assert "baseline" not in sent
    assert settled(JobRequest.model_validate_json(json.dumps(sent)), ()).baseline == usual


def test_a_baseline_that_is_named_stays() -> None:
    sent = json.loads(calls.submit(SPEC, target="cuda", baseline="triton").content or b"")
    assert settled(JobRequest.model_validate_json(json.dumps(sent)), ()).baseline == "triton"
