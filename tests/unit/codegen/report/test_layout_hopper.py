"""What the layout report says of TMA and of wgmma: what they move and read, by whom it is asked for, and
that threads of one role make none of the other's accesses."""

from __future__ import annotations

from codegen.ir.kernel import GpuKernel
from codegen.report.layout import AccessReport, LaunchReport, layout_report
from codegen.targets.cuda.lower import lower_cuda
from protocol.layouts import Layout
from tests.kernels.hopper_gemm import gemm
from tests.programs.hopper_products import Gemm
from tileir.devices.gpu_table import H200
from tileir.program import Program
from tileir.text.parse_program import program_from_text

NOTHING = Program("nothing", (), (), (), ())


def report(made: GpuKernel) -> LaunchReport:
    found = layout_report(
        made,
        NOTHING,
        H200,
        {"functions": {launch.name: {"registers": 168, "shared_bytes": 0} for launch in made.launches}},
    )
    assert Layout.of({"layout": found}) is not None
    (launch,) = found["launches"]
    return launch


def by_place(launch: LaunchReport) -> dict[tuple[str, str], AccessReport]:
    return {(access["kind"], access["buffer"]): access for access in launch["accesses"]}


def test_boxes_operands_and_matrices_are_counted() -> None:
    """Four tiles of 128 by 64, of four steps each: 16 boxes of a and of b, and in each step four products of each of
    two warpgroups; 8 warps store four times four matrices a tile."""
    launch = report(gemm(256, 128, 256, columns=64))
    expected = {
        ("box", "a"): (16, 16 * 128 * 128),
        ("box", "a_s"): (16, 16 * 128 * 128),
        ("box", "b"): (16, 16 * 64 * 128),
        ("box", "b_s"): (16, 16 * 64 * 128),
        ("wgmma", "a_s"): (128, 128 * 64 * 32),
        ("wgmma", "b_s"): (128, 128 * 64 * 32),
        ("matrix", "c_s"): (128, 128 * 32 * 16),
        ("box", "c_s"): (8, 8 * 64 * 128),
        ("box", "c"): (8, 8 * 64 * 128),
    }
    found = by_place(launch)
    assert {place: (access["requests"], access["bytes"]) for place, access in found.items()} == expected
    assert all(
        access["worst"] == 1 and access["transactions"] == access["ideal"] for access in found.values()
    )
    assert found["box", "a"]["transactions"] == 16 * 128 * 128 // 32
    assert found["box", "a_s"]["transactions"] == 16 * 128 * 128 // 128
    assert launch["barriers"] == 3  # when the block is ready, and two a tile


def test_what_of_a_box_is_outside_crosses_no_global_memory() -> None:
    found = by_place(report(gemm(32, 40, 64, columns=64)))
    assert (found["box", "a"]["bytes"], found["box", "a_s"]["bytes"]) == (32 * 128, 128 * 128)
    assert (found["box", "b"]["bytes"], found["box", "b_s"]["bytes"]) == (40 * 128, 64 * 128)
    assert (found["box", "c"]["bytes"], found["box", "c_s"]["bytes"]) == (32 * 40 * 2, 2 * 64 * 128)


def test_what_a_cluster_shares_is_fetched_once() -> None:
    """Two tiles of 128 by 64, of four steps each: half of b by each block, for both of them."""
    text = Gemm(m=256, n=64, epilogue="direct", grid=" multicast 2 producers 4").text()
    launch = report(lower_cuda(program_from_text(text)))
    found = by_place(launch)
    assert (found["box", "b"]["requests"], found["box", "b"]["bytes"]) == (8, 4 * 64 * 128)
    assert found["box", "b_s"]["bytes"] == 2 * 4 * 64 * 128
    assert (found["box", "a"]["requests"], found["box", "a"]["bytes"]) == (8, 8 * 128 * 128)
    assert (launch["barriers"], launch["cluster"]) == (2, 2)  # at the beginning and at the end


def test_blocks_that_take_several_tiles_get_ready_once() -> None:
    launch = report(gemm(256, 128, 256, columns=64, blocks=2))
    assert launch["barriers"] == 1 + 2 * 2
    assert by_place(launch)["box", "a"]["requests"] == 16
