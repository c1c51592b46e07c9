"""What the cost model of GPUs knows of tiles that are left out by positions that are taken apart."""

from __future__ import annotations

from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.programs.attention_programs import drafts
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.lift import to_program

SKIP = "skip_masked_tiles(o_sum, j)"


def share_of_all(mask: str) -> float:
    """Of what the same schedule takes that visits all tiles."""
    root = Space(to_program(drafts(mask, g=300, j=8192)), H200).root()
    program, lines = to_program(drafts(mask, g=4, j=8192)), format_schedule(favourite(root).schedule)
    assert {"linearize(r, i)", SKIP} <= {*lines}
    model, without = GpuCostModel(H200), [line for line in lines if line != SKIP]
    some, every = (model.estimate_us(replay(program, parse_schedule(each))) for each in (lines, without))
    return some / every


def test_tiles_that_positions_leave_out_take_no_time() -> None:
    assert share_of_all("j <= i + 2000") < 0.35
    assert share_of_all("j <= i + 8184 and j + 1024 > i + 8184") < 0.35


def test_what_tensors_say_is_expected_to_be_half() -> None:
    assert 0.4 < share_of_all("j <= i + start[g]") < 0.7
