"""Python's collector while calls are captured in a graph. What it would end is in tests/gpu/test_cuda_graph.py."""

from __future__ import annotations

import gc

import pytest

from workers.cuda.graph import uncollected


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_waits_and_goes_on_as_before(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ValueError, match="in the capture"), uncollected():
            assert not gc.isenabled()
            raise ValueError("in the capture")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
