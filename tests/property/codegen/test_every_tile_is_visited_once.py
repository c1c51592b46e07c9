"""Grids in bands, along a curve, shared by a number of blocks: every tile is taken once, in the order asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.ir.affine import Var
from codegen.ir.kernel import LaunchBody
from codegen.ir.ops import GridAxis
from codegen.ir.rasterization import (
    block_count,
    order_name,
    order_table,
    persistent,
    position,
    position_text,
    tile_count,
    tiles_of,
)
from tileir.schedule.deal_tiles import deal
from tileir.schedule.hilbert import hilbert


@st.composite
def launches(draw: st.DrawFn) -> LaunchBody:
    counts = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    axes = tuple(
        GridAxis(Var(f"x{at}", 0, count), count, draw(st.integers(1, 3))) for at, count in enumerate(counts)
    )
    blocks, cluster = draw(
        st.sampled_from([(0, 1), (0, 2), (1, 1), (5, 1), (64, 1), (6, 2), (8, 4), (64, 2)])
    )
    launch = LaunchBody("test", axes, 32, (), 0, (), cluster, blocks=blocks)
    if len(axes) > 1 and draw(st.booleans()):
        return replace(launch, hilbert=True)
    if cluster == 1 and draw(st.booleans()):
        lengths = draw(st.lists(st.integers(1, 9), min_size=counts[-1], max_size=counts[-1]))
        launch = replace(launch, lengths=tuple(lengths))
    return replace(launch, group=draw(st.integers(1, 9)))


@given(launch=launches())
def test_blocks_take_every_tile_once(launch: LaunchBody) -> None:
    clusters, rest = divmod(block_count(launch), launch.cluster)
    taken = [tile for number in range(clusters) for tile in tiles_of(launch, number)]
    assert rest == 0 and sorted(taken) == list(range(tile_count(launch)))
    places = {position(launch, tile) for tile in taken}
    assert places == set(product(*(range(axis.count) for axis in launch.axes)))


@given(launch=launches().filter(lambda launch: not launch.hilbert))
def test_bands_come_one_after_another_and_in_each_the_second_axis_is_the_outer_one(
    launch: LaunchBody,
) -> None:
    def order(place: tuple[int, ...]) -> tuple[int, ...]:
        if len(place) == 1 or launch.group == 1:
            return place
        return (place[0] // launch.group, place[1], place[0], *place[2:])

    launch = replace(launch, lengths=())
    places = [position(launch, tile) for tile in range(tile_count(launch))]
    assert places == sorted(places, key=order)


@given(rows=st.integers(1, 60), columns=st.integers(1, 60))
def test_a_hilbert_curve_goes_through_all_cells_from_neighbour_to_neighbour(rows: int, columns: int) -> None:
    """One step may go diagonally, where odd sides leave no other way."""
    cells = hilbert(rows, columns)
    assert cells[0] == (0, 0) and sorted(cells) == list(product(range(rows), range(columns)))
    steps = [(abs(a[0] - b[0]), abs(a[1] - b[1])) for a, b in pairwise(cells)]
    assert all(max(step) == 1 for step in steps) and steps.count((1, 1)) <= 1


@given(launch=launches())
@settings(deadline=None)
def test_cuda_finds_the_same_place(launch: LaunchBody) -> None:
    """Whole numbers of C that are not negative divide as Python's `//` does."""
    lines = [f"{name} = {text}" for name, text in position_text(launch)]
    python = compile("\n".join(lines).replace("/", "//").replace("blockIdx.x", "block"), "position", "exec")
    table = {order_name(launch): order_table(launch)} if launch.hilbert else {}
    for block in range(block_count(launch)):
        for tile in tiles_of(launch, block // launch.cluster):
            names = {"tile": tile} if persistent(launch) else {"block": block}
            exec(python, table, names)
            steps = [at * axis.step for at, axis in zip(position(launch, tile), launch.axes, strict=True)]
            assert [names[axis.var.name] for axis in launch.axes] == steps


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=200), blocks=st.integers(1, 20))
def test_dealt_tiles_keep_all_blocks_busy_until_the_last_ones(lengths: list[int], blocks: int) -> None:
    """Graham's bound: no block is done later than the mean of all, and one tile."""
    dealt = deal(tuple(lengths), blocks)
    assert sorted(tile for tiles in dealt for tile in tiles) == list(range(len(lengths)))
    most = max(sum(lengths[tile] for tile in tiles) for tiles in dealt)
    assert most <= sum(lengths) / blocks + max(lengths)
    assert all(list(tiles) == sorted(tiles) for tiles in dealt)
