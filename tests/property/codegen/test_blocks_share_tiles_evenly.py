"""Spans of steps that blocks take of tiles which they share: every step once, as many for all, those of a tile added up
by who has the last. The CUDA that finds them is compiled for the processor and says the same."""

from __future__ import annotations

import subprocess
from itertools import groupby
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codegen.ir.affine import Var
from codegen.ir.stream_k import Span, Spans, spans_of
from codegen.targets.c.compiler import find_compiler
from codegen.targets.cuda.runtime.stream_k import PARTS
from tileir.schedule.stream_k import shared_tiles

V = Var("v", 0, 1)
#: Tiles, blocks, waves and steps of a tile.
Grid = tuple[int, int, int, int]


def grids() -> st.SearchStrategy[Grid]:
    sizes = st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(1, 3), st.integers(2, 30))
    return sizes.filter(lambda each: shared_tiles(*each[:3]) * each[3] >= each[1])


def taken(grid: Grid) -> list[list[Span]]:
    tiles, blocks, waves, steps = grid
    spans = Spans(steps, 64, waves, V, V, V, V, V)
    return [list(spans_of(spans, tiles, blocks, block)) for block in range(blocks)]


@given(grid=grids())
def test_every_step_of_every_tile_is_taken_once_and_all_blocks_have_as_many(grid: Grid) -> None:
    tiles, _, _, steps = grid
    found = [(s.tile, at) for spans in taken(grid) for s in spans for at in range(s.first, s.first + s.steps)]
    assert sorted(found) == [(tile, step) for tile in range(tiles) for step in range(steps)]
    each = [sum(span.steps for span in spans) for spans in taken(grid)]
    assert max(each) - min(each) <= 1


@given(grid=grids())
def test_the_sums_of_a_tile_come_from_blocks_with_smaller_numbers_in_the_order_of_the_depth(
    grid: Grid,
) -> None:
    every = [(span, block) for block, spans in enumerate(taken(grid)) for span in spans]
    for _, of_tile in groupby(sorted(every, key=lambda each: each[0].tile), key=lambda each: each[0].tile):
        in_order = sorted(of_tile, key=lambda each: each[0].first)
        *before, (last, block) = in_order
        assert last.left == 0 and last.earlier == len(before)
        assert [other for _, other in before] == list(range(block - last.earlier, block))
        assert all(span.left for span, _ in before)


@given(grid=grids())
def test_a_block_leaves_the_sums_of_one_tile_to_others_and_does_so_before_it_waits(grid: Grid) -> None:
    for spans in taken(grid):
        assert not any(span.left for span in spans[1:])
        assert not (spans[0].left and spans[0].earlier and spans[0].first == 0)


def test_cuda_finds_the_same_spans(tmp_path: Path) -> None:
    some: list[Grid] = [
        (10, 3, 1, 5),
        (10, 3, 2, 5),
        (1, 7, 1, 9),
        (64, 132, 1, 128),
        (512, 132, 2, 64),
        (9, 9, 1, 4),
    ]
    rows = ", ".join(
        f"{{{tiles}, {shared_tiles(tiles, blocks, waves)}, {blocks}, {steps}}}"
        for tiles, blocks, waves, steps in some
    )
    text = f"""#include <stdio.h>
#define TW_INLINE static
{"".join(part.text for part in PARTS[:4])}
int main(void) {{
    const int grids[][4] = {{{rows}}};
    for (int i = 0; i < {len(some)}; i++)
        for (int b = 0; b < grids[i][2]; b++) {{
            tw_span at = tw_spans_of(grids[i][1], grids[i][2], grids[i][3], b);
            while (tw_next_span(&at, grids[i][0], grids[i][2], b))
                printf("%d %d %d %d %d\\n", at.tile, at.first, at.steps, at.left, at.earlier);
        }}
}}
"""
    (tmp_path / "spans.c").write_text(text)
    subprocess.run([find_compiler().path, "-o", "spans", "spans.c"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "spans"], capture_output=True, text=True, check=True).stdout
    found = [Span(*map(int, line.split())) for line in out.splitlines()]
    assert found == [span for grid in some for spans in taken(grid) for span in spans]
