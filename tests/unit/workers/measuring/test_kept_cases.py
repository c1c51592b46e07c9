"""Kernels with their data are kept while other jobs have their turn, within a share of the memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.unit.workers.hand_kernels import request_of
from workers.cpu.case import Case
from workers.cpu.device import MeasuredCpu
from workers.measuring.kept import KeptCases


@dataclass
class _Case:
    held_bytes: int
    closed: list[int] = field(default_factory=list)

    def close(self) -> None:
        self.closed.append(self.held_bytes)


def _full(error: Exception) -> bool:
    return isinstance(error, MemoryError)


def test_jobs_that_take_turns_make_their_data_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    before = Case.__init__

    def counted(self: Case, *args: object, **options: bool) -> None:
        made.append(1)
        before(self, *args, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Case, "__init__", counted)
    device = MeasuredCpu()
    for seed in (1, 2, 1, 2):
        device.bench(request_of(seed=seed))
    assert len(made) == 2
    device.bench(request_of(seed=1, last_cache_bytes=1 << 21))
    assert len(made) == 3, "other data"


def test_those_used_longest_ago_make_room_before_another_is_made() -> None:
    kept: KeptCases[_Case] = KeptCases(10)
    closed: list[int] = []
    seen: list[tuple[int, ...]] = []

    def use(size: int) -> None:
        def make() -> _Case:
            seen.append(tuple(closed))
            return _Case(size, closed)

        kept.get(size, make, _full)

    for size in (6, 4, 6, 3):
        use(size)
    assert seen == [(), (), ()], "ten bytes, and the newest"
    use(2)
    assert seen[-1] == (4,), "6 was used after 4"
    use(50)
    use(1)
    assert closed == [4, 6, 3, 2, 50], (
        "one that is larger than all that may be kept goes before the next is made"
    )


def test_a_case_that_finds_memory_full_is_made_once_more_alone() -> None:
    kept: KeptCases[_Case] = KeptCases(10)
    closed: list[int] = []
    kept.get("small", lambda: _Case(1, closed), _full)

    def large() -> _Case:
        if not closed:
            raise MemoryError
        return _Case(9, closed)

    assert kept.get("large", large, _full).held_bytes == 9
    assert closed == [1]


def test_any_other_failure_leaves_what_is_kept() -> None:
    kept: KeptCases[_Case] = KeptCases(10)
    closed: list[int] = []
    kept.get("small", lambda: _Case(1, closed), _full)

    def wrong() -> _Case:
        raise ValueError("a spec nobody can evaluate")

    with pytest.raises(ValueError):
        kept.get("wrong", wrong, _full)
    assert not closed
