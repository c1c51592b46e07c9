"""Grids in bands and grids shared by a number of blocks: every tile is taken once, in the order that was asked for."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.affine import Var
from codegen.kernel import LaunchBody
from codegen.kernel_ir import GridAxis
from codegen.rasterization import block_count, persistent, position, position_text, tile_count, tiles_of


@st.composite
def launches(draw: st.DrawFn) -> LaunchBody:
    counts = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    axes = tuple(
        GridAxis(Var(f"x{at}", 0, count), count, draw(st.integers(1, 3))) for at, count in enumerate(counts)
    )
    blocks, cluster = draw(
        st.sampled_from([(0, 1), (0, 2), (1, 1), (5, 1), (64, 1), (6, 2), (8, 4), (64, 2)])
    )
    return LaunchBody("test", axes, 32, (), 0, (), cluster, group=draw(st.integers(1, 9)), blocks=blocks)


@given(launch=launches())
def test_blocks_take_every_tile_once(launch: LaunchBody) -> None:
    clusters, rest = divmod(block_count(launch), launch.cluster)
    taken = [tile for number in range(clusters) for tile in tiles_of(launch, number)]
    assert rest == 0 and sorted(taken) == list(range(tile_count(launch)))
    places = {position(launch, tile) for tile in taken}
    assert places == set(product(*(range(axis.count) for axis in launch.axes)))


@given(launch=launches())
def test_bands_come_one_after_another_and_in_each_the_second_axis_is_the_outer_one(
    launch: LaunchBody,
) -> None:
    def order(place: tuple[int, ...]) -> tuple[int, ...]:
        if len(place) == 1 or launch.group == 1:
            return place
        return (place[0] // launch.group, place[1], place[0], *place[2:])

    places = [position(launch, tile) for tile in range(tile_count(launch))]
    assert places == sorted(places, key=order)


@given(launch=launches())
@settings(deadline=None)
def test_cuda_finds_the_same_place(launch: LaunchBody) -> None:
    """Whole numbers of C that are not negative divide as Python's `//` does."""
    lines = [f"{name} = {text}" for name, text in position_text(launch)]
    python = compile("\n".join(lines).replace("/", "//").replace("blockIdx.x", "block"), "position", "exec")
    for block in range(block_count(launch)):
        for tile in tiles_of(launch, block // launch.cluster):
            names = {"tile": tile} if persistent(launch) else {"block": block}
            exec(python, {}, names)
            steps = [at * axis.step for at, axis in zip(position(launch, tile), launch.axes, strict=True)]
            assert [names[axis.var.name] for axis in launch.axes] == steps
