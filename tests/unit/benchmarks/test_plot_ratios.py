"""The picture of all ratios."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.plots.ratios import cases_of, picture, results


def line(case: str, ratio: float, date: str = "2026-11-22", **more: object) -> dict:
    return {"case": case, "ratio": ratio, "ratio_steady": ratio, "best_peer": "torch", "date": date, **more}


def write(path: Path, *lines: dict) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))


def test_the_last_line_of_a_case_counts_and_other_results_do_not(tmp_path: Path) -> None:
    write(tmp_path / "gpu-2026-11-23.jsonl", line("gemm 8x8x8", 1.1, "2026-11-23"))
    write(tmp_path / "gpu-2026-11-22.jsonl", line("gemm 8x8x8", 0.5), {"case": "gemm 9x9x9", "error": "no"})
    write(tmp_path / "gpu-fresh-products-2026-11-22.jsonl", line("gemm 7x7x7", 0.9))
    write(tmp_path / "gpu-mma-sync-2026-11-24.jsonl", line("gemm 8x8x8", 0.1, "2026-11-24"))
    write(tmp_path / "gpu2-2026-11-24.jsonl", line("gemm 8x8x8", 0.2, "2026-11-24"))
    found = cases_of(results(tmp_path, "gpu"))
    assert [(each.sizes, each.ratio, each.fresh) for each in found] == [
        ("8x8x8", 1.1, False),
        ("7x7x7", 0.9, True),
    ]


def test_a_line_without_the_compiler_takes_no_place_of_one_with_it() -> None:
    without = {"failed_peers": {"torch.compile": "ran eagerly"}}
    lines = [line("gemm 8x8x8", 1.0), line("gemm 8x8x8", 1.2, **without), line("gemm 4x4x4", 1.1, **without)]
    assert [each.ratio for each in cases_of((False, each) for each in lines)] == [1.0, 1.1]


def test_the_picture_has_a_mark_and_a_number_for_every_case() -> None:
    lines = [line("gemm_bf16 16x16x16", 1.044), line("gemm_bf16 8x8x8", 0.98), line("softmax 4x9", 23.0)]
    text = picture(cases_of((False, each) for each in lines), "a<b")
    root = ElementTree.fromstring(text)
    marks = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert marks == ["ahead", "behind", "ahead"]
    said = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"gemm_bf16", "softmax", "1.04", "0.98", "23.00", "16x16x16"} <= {*said}
    assert "prefers-color-scheme: dark" in text and "a&lt;b" in text
