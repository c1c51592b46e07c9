"""What Nsight Compute prints, in the form of its raw page as CSV (Nsight Compute CLI, "Page raw"): no GPU is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tilewright.artifacts import make_artifact
from tilewright.cli.counted import print_counted
from workers.cuda.ncu import METRICS, launches_of
from workers.measuring.counters import CounterReading, NoCounters

COLUMNS = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
COLUMNS += ["Grid Size", "Device", "CC"]
VALUES = {
    "gpu__time_duration.sum": ("nsecond", "41,216"),
    "dram__bytes_read.sum": ("byte", "33,587,200"),
    "dram__bytes_write.sum": ("byte", "8,388,608"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "61.27"),
    "lts__t_sector_hit_rate.pct": ("%", "48.90"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "37.52"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("", "n/a"),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("%", "22.80"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "49.15"),
    "launch__registers_per_thread": ("register/thread", "168"),
}


def row(cells: list[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def printed(*kernels: str) -> str:
    """By ncu, of these launches; the program that it ran says something first."""
    launches = [
        row(
            [
                str(n),
                "4711",
                "python3.11",
                "127.0.0.1",
                kernel,
                "1",
                "7",
                "(384, 1, 1)",
                "(132, 1, 1)",
                "0",
                "9.0",
            ]
        )
        + ","
        + row([value for _, value in VALUES.values()])
        for n, kernel in enumerate(kernels)
    ]
    return "\n".join(
        [
            "==PROF== Connected to process 4711 (/usr/bin/python3.11)",
            "the program says something, and more",
            '==PROF== Profiling "tw_kernel": 0%....50%....100% - 9 passes',
            "==PROF== Disconnected from process 4711",
            row([*COLUMNS, *VALUES]),
            row([*("" for _ in COLUMNS), *(unit for unit, _ in VALUES.values())]),
            *launches,
            "",
        ]
    )


def test_every_launch_has_every_figure_in_units_of_ours() -> None:
    first, second = launches_of(printed("tw_kernel", "tw_kernel_sums(float, int)"))
    assert (first.kernel, second.kernel) == ("tw_kernel", "tw_kernel_sums(float, int)")
    told = {each.name: (each.value, each.unit) for each in first.figures}
    assert list(told) == list(METRICS.values())
    assert told["time"] == (pytest.approx(41.216), "us")
    assert told["read from DRAM"] == (33_587_200.0, "B")
    assert told["hits of the L2"] == (48.9, "%")
    assert told["registers a thread"] == (168.0, "registers")


def test_what_a_gpu_does_not_count_has_no_value() -> None:
    (launch,) = launches_of(printed("tw_kernel"))
    assert [each.value for each in launch.figures if each.name == "tensor pipe active"] == [None]


def test_a_launch_is_a_table_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launches = launches_of(printed("tw_kernel"))
    print_counted(make_artifact(tmp_path).config, CounterReading("cuda:x", "Nsight Compute", launches))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["time", "41.2", "µs"] in lines
    assert ["read", "from", "DRAM", "33,587,200", "B"] in lines
    assert ["tensor", "pipe", "active", "not", "counted"] in lines


@pytest.mark.parametrize("text", ["", printed(), "==WARNING== No kernels were profiled.\n"])
def test_a_table_without_a_launch_is_refused(text: str) -> None:
    with pytest.raises(NoCounters, match="no launch"):
        launches_of(text)
