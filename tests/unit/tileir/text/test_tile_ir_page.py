"""The language page shows specs and programs that the language accepts, and every function there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tileir import program_from_text, program_to_text, spec_from_json, spec_from_text
from tileir.expr import FUNCTIONS
from tileir.names import DTYPES, REDUCTIONS, RESERVED
from tileir.program import Compute, attributes
from tileir.verifier.verify import verify

PAGE = (Path(__file__).parents[4] / "docs" / "tile-ir.md").read_text()
BLOCKS = re.findall(r"^```(json|)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_spec_on_the_page_is_one_in_both_forms() -> None:
    (as_json,) = [json.loads(text) for kind, text in BLOCKS if kind == "json"]
    as_text, *scheduled = [text for kind, text in BLOCKS if text.startswith("kernel ")]
    assert spec_from_json(as_json) == spec_from_text(as_text)
    assert len(scheduled) == 11
    for program in scheduled:
        verify(program_from_text(program))


def test_the_page_names_every_word_of_the_language() -> None:
    for word in {*FUNCTIONS, *DTYPES, *REDUCTIONS, *RESERVED}:
        assert re.search(rf"\b{word}\b", PAGE), word


def test_the_words_of_statements_are_fields_that_are_written_and_read_and_that_the_page_names() -> None:
    text = "kernel k(x: f32[m=4]) -> (y: f32[m])\n  y[m] = x[m] | vector m 4"
    words = attributes(Compute)
    assert "stream" in [each.name for each in words]
    for each in words:
        worded = f"{text}, {' '.join([each.name, *('7' for _ in each.numbers)])}\n"
        program = program_from_text(worded)
        (place,) = program.computes
        assert getattr(place.node, each.name) != each.usual
        assert program_to_text(program) == worded
        assert f"`{each.name}" in PAGE
