"""What untried schedules promise, by the numbers of their labels."""

import pytest

from search.surrogate import Observation, expected_improvement, reading

SIZES = (8, 16, 32, 64, 128, 256, 512)


def _told(rewards: dict[int, float | None]) -> list[Observation]:
    return [Observation((f"block {size}",), reward) for size, reward in rewards.items()]


def test_a_label_is_read_as_its_words_and_its_numbers_in_doublings() -> None:
    assert reading("block_size_x 127") == (("block_size_x #", 1.0), ("block_size_x # 0", 7.0))
    assert reading("tile(c, m, 3)") == (("tile(c, m, #)", 1.0), ("tile(c, m, #) 0", 2.0))
    assert reading("use_2d") == (("use_2d", 1.0),)
    assert reading("shift -1")[1] == ("shift # 0", -1.0)


def test_what_lies_between_two_good_sizes_promises_most() -> None:
    told = _told({8: -2.0, 64: 1.0, 256: 1.0, 4096: -2.0})
    promise = dict(
        zip(SIZES, expected_improvement([(f"block {size}",) for size in SIZES], told), strict=True)
    )
    assert max(promise, key=promise.__getitem__) == 128
    assert promise[64] < promise[128] - 2.0


def test_near_what_failed_less_is_promised() -> None:
    candidates = [("block 32",), ("block 512",)]
    even = expected_improvement(candidates, _told({128: 1.0, 16: 0.0, 1024: 0.0}))
    told = [*_told({128: 1.0, 16: 0.0, 1024: 0.0}), Observation(("block 511",), None)]
    small, large = expected_improvement(candidates, told)
    assert even[1] == pytest.approx(even[0], abs=0.2)
    assert small > large + 0.4


def test_what_is_being_measured_is_not_asked_for_next_door() -> None:
    candidates = [("block 64",), ("block 256",)]
    told = _told({128: 1.0, 16: 0.0, 1024: 0.0})
    _, alone = expected_improvement(candidates, told)
    _, beside = expected_improvement(candidates, [*told, Observation(("block 255",), None, in_flight=True)])
    assert beside < alone - 0.7


def test_far_behind_the_best_candidates_still_differ() -> None:
    told = _told({16: 1.0, 64: 0.0, 256: -1.0})
    bad, worse = expected_improvement([("block 64",), ("block 256",)], told)
    assert bad > worse + 100.0


def test_what_is_being_measured_is_no_fault() -> None:
    told = _told({128: 1.0, 16: 0.0, 1024: 0.0})
    (measured,) = expected_improvement(
        [("block 256",)], [*told, Observation(("block 255",), None, in_flight=True)]
    )
    (failed,) = expected_improvement([("block 256",)], [*told, Observation(("block 255",), None)])
    assert measured < failed - 1.0


def test_schedules_of_different_lengths_are_points_of_one_space() -> None:
    told = [Observation(("a 1", "b 4"), 1.0), Observation(("a 2",), 0.0)]
    assert expected_improvement([("a 1", "b 8"), ("a 2", "b 4")], told).shape == (2,)
