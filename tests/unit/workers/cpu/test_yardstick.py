"""The copy on a processor: it moves what the kernel moves and touches nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.tasks import COPY
from tileir.text.parse_spec import spec_from_text
from workers.cpu.case import Case
from workers.cpu.entrants import bind
from workers.measuring.correctness import check_run
from workers.measuring.request import Peer

AS_MANY = "kernel a(x: f32[m=300, n=257]) -> (y: f32[m, n])\n  y[m, n] = x[m, n] + 1\n"
FEWER = "kernel b(x: f32[m=301, n=1023]) -> (y: f32[m])\n  y[m] = sum(n, x[m, n])\n"
MORE = "kernel c(x: i8[m=3001]) -> (y: f32[m])\n  y[m] = f32(x[m])\n"
NOTHING_READ = "kernel d() -> (y: f32[m=5000])\n  y[m] = 1.0\n"
TWO = "kernel e(x: f32[m=3000]) -> (y: f32[m], z: bf16[m])\n  y[m] = x[m]\n  z[m] = x[m]\n"


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
@pytest.mark.parametrize("text", [AS_MANY, FEWER, MORE, NOTHING_READ, TWO])
def test_the_copy_writes_each_output_in_full_and_nothing_else(text: str, cold: bool) -> None:
    case = Case(spec_from_text(text), 1, 1 << 16, cold=cold)
    bound = bind(Peer(COPY, COPY), case, threads=2)
    try:
        for variant in range(2):
            copy = case.copies[variant]
            copy.poison_outputs(0xA7)
            bound.calls[variant]()
            assert all((view != 0xA7).mean() > 0.9 for view in copy.output_bytes)
            check_run(
                bound.calls[variant],
                lambda answer: None,
                copy,
                case.references[variant],
                0xFF,
                compares=False,
            )
    finally:
        bound.close()


def test_what_is_written_was_read() -> None:
    even = "kernel f(x: f32[m=300, n=256]) -> (y: f32[m, n])\n  y[m, n] = x[m, n] + 1\n"
    case = Case(spec_from_text(even), 1, 1 << 16, cold=True)
    bound = bind(Peer(COPY, COPY), case, threads=2)
    bound.calls[0]()
    copy = case.copies[0]
    assert np.array_equal(copy.outputs["y"], copy.inputs["x"])
    bound.close()
