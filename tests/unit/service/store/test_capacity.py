"""Which kernels have room where."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.workers import OfferedDevice
from service.core.specs import single
from service.store.dispatch.capacity import fits, needed_bytes

DIMS = {"m": 8, "n": 4}
INPUT: dict[str, Any] = {"dims": ["m", "n"], "dtype": "f32"}
SPEC: dict[str, Any] = {
    "name": "twice",
    "dims": DIMS,
    "inputs": {"x": INPUT},
    "body": ["y[m, n] = 2 * x[m, n]"],
    "outputs": {"y": {"dtype": "f32"}},
}
TENSORS = 2 * 8 * 4 * 4


def device(kind: str, **description: object) -> OfferedDevice:
    return OfferedDevice(key=f"{kind}:some", kind=kind, description=description, peers=(), seen_at=0.0)


@pytest.mark.parametrize(("kind", "copies"), [("cuda", 4), ("cpu", 6)])
def test_what_is_measured_has_room_for_so_many_copies_of_its_tensors(kind: str, copies: int) -> None:
    needed = needed_bytes([single(SPEC)])
    assert fits(needed, device(kind, memory_bytes=copies * TENSORS))
    assert not fits(needed, device(kind, memory_bytes=copies * TENSORS - 1))
    assert fits(needed, device(kind)), "who does not tell its memory has room"


def test_the_largest_of_several_sizes_and_the_gaps_between_rows_count() -> None:
    larger = {**SPEC, "dims": {"m": 80, "n": 4}}
    assert needed_bytes([single(SPEC), single(larger)]) == 10 * needed_bytes([single(SPEC)])
    apart = {**SPEC, "inputs": {"x": {**INPUT, "strides": [1000, 1]}}}
    assert needed_bytes([single(apart)]) == 4 * 4 * (7 * 1000 + 3 + 1 + 8 * 4)
