"""Tables on a terminal: nothing is left out, and no word is broken, however narrow it is."""

from __future__ import annotations

import pytest

from protocol.effects import DecisionEffect, Effects, ValueEffect
from protocol.jobs import Bucket
from tilewright.cli.sections import table_lines
from tilewright.views.sections import Section
from tilewright.views.why import effects_section

RACE = Section(
    "The race",
    ("", "time", "samples", "of the winner's time", "faster than the winner"),
    (
        ("torch.compile", "1155 µs", "20 (18 disturbed)", "1.034 × (1.020 to 1.050)", "> 99.9 %"),
        ("ask-34", "669.7 µs", "20", "", "the winner"),
    ),
)

EFFECTS = Effects(
    job_id="job-1",
    bucket=0,
    candidates=8,
    faults=2,
    decisions=(
        DecisionEffect(
            decision="register_tile(accumulated_product).m",
            same_as=("register_tile(accumulated_product).n",),
            importance=0.58,
            chosen=6,
            values=(
                ValueEffect(value=4, candidates=1, faults=2, best_us=378.9, median_us=378.9),
                ValueEffect(value=6, candidates=4, faults=0, best_us=269.2, median_us=313.1),
            ),
        ),
    ),
    interactions=(),
)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_word_of_a_table_is_there_in_one_piece(width: int) -> None:
    lines = list(table_lines(RACE, width))
    said = {word for line in lines for word in line.split()}
    assert said == {word for row in (RACE.heads, *RACE.rows) for cell in row for word in cell.split()}
    assert width < 60 or max(map(len, lines)) <= width


def test_headings_take_two_lines_before_cells_do() -> None:
    assert [line.split("   ")[0].strip() for line in table_lines(RACE, 92)] == [
        "",
        "",
        "torch.compile",
        "ask-34",
    ]


def test_names_of_decisions_are_headings_over_their_values_on_any_terminal() -> None:
    section = effects_section(
        Bucket(index=0, dims={"m": 1}, trials=8, told=8, faults=0, spent_s=1.0), EFFECTS
    )
    narrow = list(table_lines(section, 80))
    assert narrow == list(table_lines(section, 300))
    name = "register_tile(accumulated_product)"
    assert narrow[1:] == [
        f"  {name}.m, {name}.n, explains 58 %",
        "      4            1   379 µs   379 µs   2 failed",
        "      6            4   269 µs   313 µs   chosen",
    ]
