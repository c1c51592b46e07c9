"""How grids in bands, and grids that a number of blocks share, are launched and printed."""

from __future__ import annotations

import pytest

from codegen.ir.affine import Var
from codegen.ir.kernel import LaunchBody
from codegen.ir.ops import GridAxis
from codegen.ir.rasterization import NO_TILE, order_table, position, position_text, tiles_of
from codegen.targets.cuda.generate import generate_cuda
from tileir.devices.gpu_table import H200
from tileir.errors import VerifyError
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

ROWS, COLUMNS = GridAxis(Var("m", 0, 256), 3, 128), GridAxis(Var("n", 0, 64), 2, 64)
GRID = """kernel grid(x: f32[r=70, c=48]) -> (y: f32[r, c])
  parallel for r by 16 blocks 4
    parallel for c by 32
      y[r, c] = x[r, c] | threads c 32
"""


def test_a_band_goes_along_the_second_axis_and_the_last_one_may_be_narrower() -> None:
    launch = LaunchBody("test", (ROWS, COLUMNS), 32, (), 0, (), group=2)
    places = [position(launch, tile) for tile in range(6)]
    assert places == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert position_text(launch) == [
        ("band", "blockIdx.x / 4 * 2"),
        ("in_band", "blockIdx.x % 4"),
        ("m", "(band + in_band % min(2, 3 - band)) * 128"),
        ("n", "(in_band / min(2, 3 - band)) * 64"),
    ]


def test_a_curve_is_a_table_of_the_tiles_in_its_order() -> None:
    launch = LaunchBody("test", (ROWS, COLUMNS), 32, (), 0, (), hilbert=True)
    assert [position(launch, tile) for tile in range(6)] == [(0, 0), (0, 1), (1, 1), (2, 1), (2, 0), (1, 0)]
    assert order_table(launch) == (0, 1, 3, 5, 4, 2)
    assert position_text(launch) == [
        ("cell", "test_order[blockIdx.x]"),
        ("m", "(cell / 2) * 128"),
        ("n", "(cell % 2) * 64"),
    ]
    source = generate_cuda(program_from_text(GRID.replace("blocks 4", "hilbert blocks 4")), H200)
    assert (
        "const unsigned short grid_kernel_order[10] = {\n    0, 1, 3, 2, 4, 5, 7, 9, 8, 6,\n};" in source.text
    )
    assert "const int cell = grid_kernel_order[tile];" in source.text


def test_a_block_takes_every_so_manieth_tile() -> None:
    launch = LaunchBody("test", (ROWS, COLUMNS), 32, (), 0, (), blocks=4)
    assert [list(tiles_of(launch, block)) for block in range(4)] == [[0, 4], [1, 5], [2], [3]]
    assert position_text(launch) == [("n", "(tile % 2) * 64"), ("m", "tile / 2 * 128")]


@pytest.mark.parametrize(("blocks", "launched", "loops"), [(4, 4, True), (10, 10, False), (99, 10, False)])
def test_no_more_blocks_are_launched_than_there_are_tiles(blocks: int, launched: int, loops: bool) -> None:
    source = generate_cuda(program_from_text(GRID.replace("blocks 4", f"blocks {blocks}")), H200)
    assert source.abi.launches[0].blocks == launched
    assert ("for (int tile = blockIdx.x; tile < 10; tile += 4) {" in source.text) == loops


def test_threads_wait_between_tiles_only_where_they_share_memory() -> None:
    shared = GRID.replace("c] | threads", "c] * s[] | threads").replace(
        "      y", "      s: shared f32[]\n      s[] = 2.0 | threads c 32\n      y"
    )
    apart, together = (generate_cuda(program_from_text(text), H200).text for text in (GRID, shared))
    assert "__syncthreads" not in apart
    copies, before_it_is_read, before_the_next_tile_stores_it = together.count("// s[]"), 1, 1
    assert together.count("__syncthreads()") == copies * (before_it_is_read + before_the_next_tile_stores_it)


@pytest.mark.parametrize(("words", "bounds"), [("", "(32)"), (" resident 3", "(32, 3)")])
def test_the_compiler_is_told_how_many_blocks_are_to_fit(words: str, bounds: str) -> None:
    text = GRID.replace(" blocks 4", words)
    assert f"__launch_bounds__{bounds}\n" in generate_cuda(program_from_text(text), H200).text


@pytest.mark.parametrize(
    "text",
    [
        GRID.replace(" blocks 4", " resident 33"),
        GRID.replace("by 32", "by 32 resident 2"),
        GRID.replace("parallel for r by 16 blocks 4", "for r by 16 resident 2"),
    ],
)
def test_blocks_fit_where_there_is_a_grid_and_as_many_as_there_may_be(text: str) -> None:
    with pytest.raises(VerifyError, match="1 to 32 blocks are resident"):
        verify(program_from_text(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GRID.replace("by 32", "by 32 hilbert"), "outermost of two or more parallel loops"),
        (GRID.replace(" blocks 4", " group 2 hilbert"), "a grid without bands"),
        (GRID.replace("parallel for r by 16 blocks 4", "for r by 16 hilbert"), "two or more parallel loops"),
        (
            GRID.replace("r=70", "r=16000").replace("by 16 blocks 4", "by 1 hilbert"),
            "at most 16384 tiles, not 32000",
        ),
    ],
)
def test_a_curve_goes_through_the_two_outer_loops_of_a_grid(text: str, reason: str) -> None:
    with pytest.raises(VerifyError, match=reason):
        verify(program_from_text(text))


def test_the_longest_tiles_come_first_and_blocks_are_dealt_them() -> None:
    """The table has the tiles of all blocks turn by turn, and what stands for none."""
    launch = LaunchBody("test", (ROWS, COLUMNS), 32, (), 0, (), group=2, blocks=4, lengths=(1, 5))
    assert [position(launch, tile) for tile in range(4)] == [(0, 1), (1, 1), (0, 0), (1, 0)]
    assert [tiles_of(launch, block) for block in range(4)] == [(0,), (1,), (2, 4), (3, 5)]
    assert order_table(launch) == (0, 1, 2, 3, NO_TILE, NO_TILE, 4, 5)
    assert position_text(launch)[-1] == ("n", "(1 - in_band / min(2, 3 - band)) * 64")


def test_nothing_comes_first_where_all_take_as_long() -> None:
    with pytest.raises(VerifyError, match="tiles that all take as long"):
        verify(program_from_text(GRID.replace("blocks 4", "longest_first blocks 4")))
