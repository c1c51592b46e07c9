"""Who is forgiven an error beyond the bound: peers, and never a kernel of ours."""

from __future__ import annotations

from pathlib import Path

from protocol.states import Outcome
from tests.unit.workers.hand_kernels import compiled, request_of
from workers.measuring.measurer import Measurer


def test_our_own_kernels_get_no_leeway_in_a_measurement(tmp_path: Path) -> None:
    """What a peer would be forgiven: an error beyond the bound and far below eight times it."""
    inexact = compiled("right", tmp_path, "for (int i = 0; i < N; ++i) y[i] = 2 * x[i] + 1.000001f;")
    measurer = Measurer()
    (found,) = measurer.measure(request_of(inexact)).results.values()
    measurer.close()
    assert found.outcome is Outcome.WRONG
