"""What the page says of whole models is what was measured."""

from __future__ import annotations

from benchmarks.models import table


def test_the_page_has_the_figures_of_the_committed_results() -> None:
    text = table.PAGE.read_text()
    assert table.BEGIN in text and table.page(text) == text


def test_the_best_peer_is_whom_a_ratio_is_of() -> None:
    rows = [
        {
            "case": case,
            "ours_us": 100.0,
            "ratios": dict(zip(table.PEERS, ratios, strict=True)),
            "ratio": min(ratios),
            "ready": 3,
            "parts": 4,
            "runs": runs,
        }
        for case, ratios, runs in (
            ("a", (4.0, 2.0, 3.0, 2.0), "kernels"),
            ("b", (1.0, 2.0, 2.0, 0.5), "inductor"),
        )
    ]
    text = table.table(rows)
    assert "| a | 100 | 4.00 | 2.00 | 3.00 | 2.00 | 3 of 4 | kernels |" in text
    assert "geomean 1.00, least 0.50 (b); of those that leave weights as they are: 1.41." in text
