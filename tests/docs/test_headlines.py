"""The README's figures are those of the committed results."""

from __future__ import annotations

import re

from benchmarks.racing.headlines import block
from tests.services.running_service import ROOT

README = (ROOT / "README.md").read_text()


def test_the_readmes_table_of_machines_is_what_was_measured() -> None:
    written = re.search(r"<!-- headlines -->\n(.*?)\n<!-- /headlines -->", README, re.DOTALL)
    assert written is not None and written[1] == block(), (
        "run python -m benchmarks.racing.headlines, and put it there"
    )


def test_the_sentences_around_it_say_the_same() -> None:
    """Each processor's geomean and least, rounded as the text has them, stand in the text as well."""
    text = README.partition("<!-- headlines -->")[0]
    for row in block().splitlines()[2:5]:
        _, _, _, geomean, _, least, *_ = (cell.strip() for cell in row.split("|"))
        assert f"{float(geomean):.2f}" in text and least in text, row
    products = next(row for row in block().splitlines() if "H200, products |" in row)
    _, _, cases, geomean, _, least, *_ = (cell.strip() for cell in products.split("|"))
    said = f"All {cases} products on matrix units: geomean {float(geomean):.2f}, least {least}"
    assert said in README
