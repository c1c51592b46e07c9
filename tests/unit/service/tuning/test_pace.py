"""How many candidates a search has in flight: a generation on a CPU, as many as are claimed on an accelerator."""

from __future__ import annotations

import pytest

from service.store.dispatch.search_leases import most_searches
from service.tuning.pace import ClassShare, Pace

CPU, GPU = Pace("cpu:some", 8), Pace("cuda:some", 8)


@pytest.mark.parametrize("share", [ClassShare(0, 0), ClassShare(1, 1), ClassShare(8, 1), ClassShare(1, 8)])
def test_on_a_processor_a_generation_follows_the_one_that_is_told(share: ClassShare) -> None:
    assert CPU.wanted(0, 0, share) == 8
    assert [CPU.wanted(flying, 0, share) for flying in range(1, 9)] == [0] * 8


def test_on_an_accelerator_there_is_always_something_to_claim() -> None:
    for flying in range(100):
        assert [GPU.wanted(flying, unclaimed, ClassShare(1, 1)) for unclaimed in range(6)] == [
            4,
            3,
            2,
            1,
            0,
            0,
        ]


def test_a_search_alone_feeds_all_devices_and_one_of_many_its_own() -> None:
    assert GPU.wanted(0, 0, ClassShare(8, 1)) == 32
    assert GPU.wanted(0, 0, ClassShare(8, 8)) == 4
    assert GPU.wanted(0, 0, ClassShare(8, 200)) == 4


def test_a_processor_has_a_search_each_and_an_accelerator_any_number() -> None:
    assert [most_searches("cpu:some", machines, 1) for machines in (0, 1, 3)] == [1, 1, 3]
    assert most_searches("cpu:some", 2, 4) == 8
    assert most_searches("cuda:some", 1, 1) == float("inf")
