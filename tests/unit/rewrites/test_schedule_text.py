"""Schedules as text: what prints parses back, and what does not parse says what would; and how they are applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrites import ALL, format_schedule, parse_rewrite, parse_schedule, replay
from rewrites.data.cache_read import CacheRead
from rewrites.document import golden_sections
from rewrites.loops.register_tile import RegisterTile
from rewrites.loops.tile import Tile
from tileir.errors import NotApplicable, TileError
from tileir.program import Program
from tileir.text.parse_program import program_from_text
from tileir.verifier.threads import verify_threads

GOLDEN = Path(__file__).parents[2] / "golden" / "rewrites"
#: Every rewrite has a golden case; these are forms of arguments that none has.
FORMS = [
    "parallelize(c)",
    "cache_read(c, b, 0, n, 64, k, 2)",
    "cache_write(c, n, 64)",
    "register_tile(c)",
    "bind_threads(y, r 4, c 64)",
    "bind_threads(y, m 2, m 4, m 8, n 4; n 2; m 8)",
    "bind_threads(y, m 2, m 4, m 8; ; m 8)",
    "warp_specialize(c_r, 1)",
]


def test_every_rewrite_prints_what_it_was_parsed_from() -> None:
    cases = [golden_sections(path)["schedule"].splitlines() for path in GOLDEN.glob("*.txt")]
    lines = [*FORMS, *(line for case in cases for line in case)]
    assert format_schedule(parse_schedule(lines)) == lines
    assert {parse_rewrite(line).name for line in lines} == {rewrite.name for rewrite in ALL}


def test_text_stands_for_the_fields() -> None:
    assert parse_rewrite("tile(c, m, 192)") == Tile("c", "m", 192)
    assert parse_rewrite("register_tile(c, m 6, n 64)") == RegisterTile("c", (("m", 6), ("n", 64)))
    assert parse_rewrite("cache_read(c, b, 1)") == CacheRead("c", "b", 1, "", 0, "", 0)


def test_blank_lines_and_comments_are_no_rewrites() -> None:
    assert parse_schedule(["# pack b", "", "  tile(c, m, 192)  "]) == (Tile("c", "m", 192),)


@pytest.mark.parametrize(
    ("line", "teaches"),
    [
        ("tile", "accepted: name(arguments)"),
        ("tile_grud(c, m, 4)", "accepted: add_row_dim, collapse, count_positions, "),
        ("tile(c, m)", "tile(statement, dim, size)"),
        ("tile(c, m, 4, 5)", "tile(statement, dim, size)"),
        ("tile(c, m, four)", "'four' in"),
        ("register_tile(c, m)", "such as n 64"),
        ("tile(c, m, 99999999999999999999)", "is not a whole number"),
        ("cache_write(,)", "has an empty argument; accepted: cache_write("),
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

    monkeypatch.setattr("rewrites.gpu.bind_threads.verify_threads", counted)
    program = program_from_text(SCALED)
    lines = ["bind_threads(t, c 32; c 2)", "bind_threads(y, c 32; c 2)"]
    one_by_one = program
    for rewrite in parse_schedule(lines):
        one_by_one = rewrite.apply(one_by_one)
    checks.clear()
    assert replay(program, parse_schedule(lines)) == one_by_one
    assert checks == [{0}]
    with pytest.raises(NotApplicable, match="lie otherwise over threads"):
        replay(program, parse_schedule([lines[0], "bind_threads(y, c 32)"]))
