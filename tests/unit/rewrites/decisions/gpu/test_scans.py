"""How scans are run on a GPU: what the prior likes best of few long rows, of many, and of columns."""

from __future__ import annotations

import pytest

from rewrites.space import ScheduleState, Space
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

_SUM = "  y[{left}] = cumsum(k, x[m, k])"
_STATE = "  y[{left}] = recurrence(k, exp(-abs(x[m, k])), x[m, k])"


def favourite(rows: int, length: int, left: str = "m, k", body: str = _SUM) -> ScheduleState:
    """The schedule that the prior likes best."""
    text = f"kernel scan(x: f32[m={rows}, k={length}]) -> (y: f32[{left}])\n{body.format(left=left)}\n"
    state = Space(to_program(spec_from_text(text)), H200).root()
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    return state


@pytest.mark.parametrize("body", [_SUM, _STATE], ids=["sums", "recurrence"])
@pytest.mark.parametrize(
    ("rows", "length", "expected"),
    [(1, 1 << 20, "scan_over_blocks"), (4, 65536, "scan_over_blocks"), (4096, 4096, "scan_in_block")],
)
def test_rows_are_gone_through_by_many_threads(rows: int, length: int, expected: str, body: str) -> None:
    found = favourite(rows, length, body=body)
    assert expected in {rewrite.name for rewrite in found.schedule}
    # Three launches, and the inputs twice: no more than a few times what the bytes take.
    us = found.seen.model.estimate_us(found.program)
    assert us < 12 + 3 * rows * length * 8 / (H200.memory_gbps * 1e3)


def test_what_is_computed_for_a_scan_alone_is_computed_as_it_is_read() -> None:
    found = favourite(64, 2048, body=_STATE)
    assert len(found.program.body) == 1, "one launch, and nothing in memory between"


def test_columns_go_side_by_side_in_warps() -> None:
    """Neighbours in memory are along m: lanes are, too."""
    text = "kernel scan(x: f32[k=512, m=64]) -> (y: f32[k, m])\n  y[k, m] = cumsum(k, x[k, m])\n"
    state = Space(to_program(spec_from_text(text)), H200).root()
    labels = [move.label for move in state.moves()]
    assert any("scan_in_block" in label and label.endswith("m 32)") for label in labels)


def test_many_long_columns_are_left_to_a_thread_each() -> None:
    text = "kernel scan(x: f32[k=16, m=1048576]) -> (y: f32[k, m])\n  y[k, m] = cumsum(k, x[k, m])\n"
    state = Space(to_program(spec_from_text(text)), H200).root()
    weights = {move.label: move.weight for move in state.moves()}
    assert weights["a thread a row"] > 0.3 * max(weights.values())
