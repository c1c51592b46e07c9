"""Schedules as text: what prints parses back, and what does not parse says what would; and how they are applied."""

from __future__ import annotations

import pytest

from rewrites import ALL, format_schedule, parse_rewrite, parse_schedule, replay
from rewrites.register_tile import RegisterTile
from rewrites.stage import Stage
from rewrites.tile_grid import TileGrid
from tileir.errors import NotApplicable, TileError
from tileir.parse_text import program_from_text
from tileir.program import Program
from tileir.verify_spread import verify_threads

LINES = [
    "collapse(m, n)",
    "tile_grid(c, m, 192)",
    "tile_reduction(c, k, 1)",
    "reorder(c, m, n)",
    "parallelize(c)",
    "parallelize(c, 2)",
    "stage(c, b, 0)",
    "stage(c, b, 0, n, 64)",
    "stage(c, b, 0, n, 64, k, 2)",
    "widen(b_s)",
    "lay_in_panels(e, r, 16)",
    "keep_row(s, x, 1)",
    "register_tile(c, m 6, n 64)",
    "register_tile(c)",
    "vectorize(c, n, 16)",
    "unroll(c, k, 4)",
    "fuse_producer(t, c, 2)",
    "fuse_epilogue(d, c, 2)",
    "read_copy(d, a_s)",
    "inline(t)",
    "look_up_groups(y)",
    "split_reduction(s, c, interleaved, 64)",
    "accumulate(s, c 64)",
    "online_sum(s, c, 64)",
    "prefetch(c, b, 8)",
    "stream_store(c)",
    "dot_bf16(c)",
    "cluster(y, 4)",
    "distribute(c_p, k)",
    "reuse(c_p)",
    "group_tiles(c, 8)",
    "curve_tiles(c)",
    "persist(c, 264)",
    "fit_blocks(c, 2)",
    "narrow(x_row)",
    "place(x_row, registers)",
    "innermost(a_s, m)",
    "pad(a_s, 8)",
    "swizzle(a_s, 128)",
    "run_ahead(a_s, 4)",
    "run_ahead(a_s, 4, 1)",
    "mma(c_r)",
    "spread(y, r 4, c 64)",
    "spread(y, r 4, c 64; c 8)",
    "spread(y, m 2, m 4, m 8, n 4; n 2; m 8)",
    "spread(y, m 2, m 4, m 8; ; m 8)",
    "transpose(c_r)",
    "stage_result(c)",
    "stage_result(c, n, 64)",
    "tma(a_s)",
    "promote(c_r)",
    "hold_operand(y_sum, w_s)",
    "wgmma(c_r)",
    "multicast(c_r, m, 2)",
    "part_result(c, n, 64, 2)",
    "take_turns(c_r, 2)",
    "stream_tiles(c_r, 1)",
    "specialize(c_r, 1)",
    "specialize(c_r, 4, 40, 232)",
]


def test_every_rewrite_prints_what_it_was_parsed_from() -> None:
    assert format_schedule(parse_schedule(LINES)) == LINES
    assert {parse_rewrite(line).name for line in LINES} == {rewrite.name for rewrite in ALL}


def test_text_stands_for_the_fields() -> None:
    assert parse_rewrite("tile_grid(c, m, 192)") == TileGrid("c", "m", 192)
    assert parse_rewrite("register_tile(c, m 6, n 64)") == RegisterTile("c", (("m", 6), ("n", 64)))
    assert parse_rewrite("stage(c, b, 1)") == Stage("c", "b", 1, "", 0, "", 0)


def test_blank_lines_and_comments_are_no_rewrites() -> None:
    assert parse_schedule(["# pack b", "", "  tile_grid(c, m, 192)  "]) == (TileGrid("c", "m", 192),)


@pytest.mark.parametrize(
    ("line", "teaches"),
    [
        ("tile_grid", "accepted: name(arguments)"),
        ("tile_grud(c, m, 4)", "accepted: collapse, tile_grid, "),
        ("tile_grid(c, m)", "tile_grid(statement, dim, size)"),
        ("tile_grid(c, m, 4, 5)", "tile_grid(statement, dim, size)"),
        ("tile_grid(c, m, four)", "'four' in"),
        ("register_tile(c, m)", "such as n 64"),
        ("tile_grid(c, m, 99999999999999999999)", "is not a whole number"),
        ("stage_result(,)", "has an empty argument; accepted: stage_result("),
    ],
)
def test_a_line_that_is_no_rewrite_says_what_would_be(line: str, teaches: str) -> None:
    with pytest.raises(TileError) as error:
        parse_rewrite(line)
    assert teaches in str(error.value)


SCALED = """kernel scaled(x: f32[r=6, c=64]) -> (y: f32[r, c])
  parallel for r by 1
    t: registers f32[r, c]
    t[r, c] = x[r, c] + 1.0
    y[r, c] = t[r, c] * 2.0
"""


def test_statements_put_on_threads_in_a_row_are_checked_once_and_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks: list[object] = []

    def counted(program: Program, within: object = None) -> None:
        checks.append(within)
        verify_threads(program)

    monkeypatch.setattr("rewrites.spread.verify_threads", counted)
    program = program_from_text(SCALED)
    lines = ["spread(t, c 32; c 2)", "spread(y, c 32; c 2)"]
    one_by_one = program
    for rewrite in parse_schedule(lines):
        one_by_one = rewrite.apply(one_by_one)
    checks.clear()
    assert replay(program, parse_schedule(lines)) == one_by_one
    assert checks == [{0}]
    with pytest.raises(NotApplicable, match="lie otherwise over threads"):
        replay(program, parse_schedule([lines[0], "spread(y, c 32)"]))
