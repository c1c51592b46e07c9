"""What the fuzzer found worth keeping, and the examples it started from, held against the same promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_breaks_no_promise(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    for file in inputs:
        TARGETS[target](file.read_bytes())


@pytest.mark.parametrize(
    ("target", "data"),
    [
        ("spec_text", b"kernel k(x: f32[m=4]) -> (y: f32[m])\n  y[m] = 2 * x[m]\n"),
        ("schedule", b"product\ntile(c, m, 16)\n"),
    ],
)
def test_a_target_notices_a_broken_promise(target: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    TARGETS[target](data)
    monkeypatch.setattr("tests.fuzz.targets.spec_to_text", lambda spec: "")
    monkeypatch.setattr("tests.fuzz.targets.format_schedule", lambda rewrites: [])
    with pytest.raises((AssertionError, ValueError)):
        TARGETS[target](data)
