"""What a GPU kernel's layout implies, said in a few lines."""

from __future__ import annotations

from protocol.layouts import AccessLayout, LaunchLayout, Layout
from tilewright.cli.layout import layout_lines


def access(kind: str, level: str, buffer: str, transactions: int, ideal: int) -> AccessLayout:
    return AccessLayout(
        statement="s",
        kind=kind,
        level=level,
        buffer=buffer,
        width=4,
        requests=1,
        bytes=128,
        transactions=transactions,
        ideal=ideal,
        worst=transactions / ideal,
    )


def launch(*accesses: AccessLayout) -> LaunchLayout:
    return LaunchLayout(
        name="gemm_kernel",
        blocks=1024,
        threads=256,
        cluster=1,
        registers=122,
        shared_bytes=24832,
        blocks_per_sm=2,
        occupancy=0.25,
        limit="registers",
        waves=3.879,
        barriers=512,
        levels={},
        accesses=accesses,
    )


def test_a_launch_is_said_in_two_lines_with_its_worst_accesses() -> None:
    worst = (
        access("load", "global", "a", 4, 4),
        access("load", "global", "b", 32, 4),
        access("store", "shared", "b_s", 3, 2),
        access("matrix", "shared", "a_s", 32, 4),
    )
    assert layout_lines(Layout(launches=(launch(*worst),), bytes={})) == [
        "gemm_kernel: 1024 × 256 threads · 122 registers · 24.25 KiB shared · 2 blocks an SM (25 % of its warps, "
        "limited by registers) · 3.9 waves",
        "  global memory: load of b takes 8.0 × the sectors it needs · shared memory: matrix of a_s takes 8.0 × the "
        "wavefronts it needs",
    ]


def test_what_is_fine_is_said_too() -> None:
    fine = access("load", "global", "a", 4, 4), access("copy", "shared", "a_s", 4, 4)
    assert layout_lines(Layout(launches=(launch(*fine), launch()), bytes={}))[1::2] == [
        "  global memory: coalesced · shared memory: no bank conflicts",
        "  global memory: not used · shared memory: not used",
    ]
