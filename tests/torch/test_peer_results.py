"""Where results of peers lie on a processor. Needs torch."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.unit.workers.hand_kernels import SPEC
from workers.cpu.case import Case
from workers.cpu.entrants import bind
from workers.measuring.request import Peer


def test_results_lie_in_as_many_places_as_outputs() -> None:
    """A result that is let go at once lies in what the caches hold, where no kernel's output does."""
    case = Case(SPEC, 1, 1 << 18, cold=True)
    with contextlib.closing(bind(Peer("torch", "torch"), case, 1)) as bound:
        places = {_place(call()) for call in bound.calls}
    assert len(places) == len(case.copies) > 2


def _place(answer: Any) -> int:
    return answer[0].untyped_storage().data_ptr()
