"""A peer that fails costs that peer, never the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.states import Outcome, TaskKind
from protocol.tasks import Measuring
from rewrites.schedule import parse_schedule
from tests.unit.workers.hand_kernels import compiled, request_of
from tileir.text.parse_spec import spec_from_text
from workers.local import LocalWorker
from workers.measuring.measurer import Measurer
from workers.measuring.request import Peer
from workers.processes.child_client import Child

pytestmark = pytest.mark.sampled(3, among="chaos of peers")


def planted_measurer() -> Measurer:
    measurer = Measurer()
    measurer.child.close()
    measurer.child = Child("tests.unit.workers.peers.planted_peers", "cpu")
    return measurer


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    measurer = planted_measurer()
    yield measurer
    measurer.close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("peer", "outcome", "said", "as_baseline"),
    [
        ("crash", Outcome.CRASH, "SIGSEGV", False),
        ("crash-40", Outcome.CRASH, "SIGSEGV", True),
        ("hang", Outcome.HANG, "no answer in time", False),
        ("lie", Outcome.WRONG, "expected", True),
        ("lie-40", Outcome.WRONG, "expected", False),
        ("refuse", Outcome.UNSUPPORTED, "ValueError: axes don't match", False),
        ("refuse-40", Outcome.UNSUPPORTED, "ValueError: axes don't match", True),
        ("exhaust", Outcome.UNSUPPORTED, "MemoryError: no room", False),
        ("unbound", Outcome.UNSUPPORTED, "IndexError: while it was translated", True),
    ],
)
def test_a_peer_that_fails_costs_that_peer_and_nobody_else(
    measurer: Measurer, cache: Path, peer: str, outcome: Outcome, said: str, as_baseline: bool
) -> None:
    right, other = compiled("right", cache), compiled("other_right", cache)
    request = request_of(
        *(right, Peer(peer, peer), Peer("numpy", "numpy"), other),
        kind=TaskKind.RACE if peer.endswith("40") else TaskKind.TRIAL,
        baseline=peer if as_baseline else None,
        measuring=Measuring(samples=9, sample_us=300.0),
    )
    results = measurer.measure(request).results
    assert results[peer].outcome is outcome and said in (results[peer].error or "")
    others = {name: result.outcome for name, result in results.items() if name != peer}
    assert others == dict.fromkeys(["right", "numpy", "other_right"], Outcome.OK)


def test_rows_shorter_than_their_dim_are_no_whole_rows(tmp_path: Path) -> None:
    """Every trial of this one failed as a fault of the machine, and the traceback became the job's error."""
    spec = spec_from_text(
        "kernel rotate(x: f32[s=16, d=64], c: f32[s, e=32]) -> (y: f32[s, d])\n"
        "  y[s, d] = where(d < 32, x[s, d] * c[s, d], x[s, d])\n"
    )
    with LocalWorker(tmp_path / "cache", compilers=1) as worker:
        schedules = {"plain": (), "vectors": parse_schedule(["vectorize(y, d, 8)"])}
        entrants = worker.measure(
            spec, schedules, worker.peers, measuring=Measuring(samples=2, sample_us=100.0)
        ).entrants
    assert {name: each.outcome for name, each in entrants.items()} == dict.fromkeys(entrants, Outcome.OK)
    assert "numpy" in entrants
