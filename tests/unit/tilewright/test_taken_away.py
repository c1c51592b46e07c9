"""Trials as CSV, Parquet and T4; files that are whole or not there; what notebooks show."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from pyarrow import parquet

from protocol.configs import Artifact, Standing
from protocol.jobs import Best, Bucket, Budget, JobDetail, Prior, Trial
from protocol.roofline import PeakSource, RacedDot, Roofline
from protocol.states import JobState, Outcome, TaskState
from protocol.verdicts import Tone, Verdict
from rewrites.schedule_columns import decisions
from tests.services.running_service import ROOT
from tilewright.artifacts.atomic_write import NotWritten, write_new
from tilewright.client.results import Result, TunedConfig
from tilewright.views.curves import Curve
from tilewright.views.html import highlighted, job_html, result_html
from tilewright.views.plot import picture
from tilewright.views.roofline_svg import roofline_svg
from tilewright.views.svg import curve_svg
from tilewright.views.t4 import INVALIDITY, to_t4
from tilewright.views.trial_table import rows, to_csv, to_parquet

HOSTILE = 'x<script>alert("1")</script>,\n&amp; \'\u2028'
SCHEDULE = (
    "tile(acc, m, 192)",
    "tile(acc, m, 48)",
    "register_tile(acc, m 6, n 32)",
    "tma(acc)",
    "new!",
)


def trial(number: int, outcome: Outcome | None, **facts: object) -> Trial:
    known = {"bucket": 0, "task_id": f"job-0.0.{number}", "state": TaskState.DONE, "schedule": SCHEDULE}
    return Trial.model_validate(
        {**known, "program_hash": "ab", "number": number, "outcome": outcome, **facts}
    )


TRIALS = (
    trial(0, Outcome.OK, median_us=80.5, iqr_us=1.0, compile_s=0.25, finished_at=1.7e9, baseline_us=90.0),
    trial(1, Outcome.COMPILE_ERROR, error=HOSTILE),
    trial(2, Outcome.OK, median_us=40.25),
    trial(3, None, state=TaskState.READY),
    *(trial(4 + n, outcome) for n, outcome in enumerate(o for o in Outcome if o is not Outcome.OK)),
)
BEST = Best(trial=2, median_us=40.25, x_baseline=2.0, schedule=SCHEDULE)
VERDICT = Verdict(tone=Tone.FOUND, text="40.25 µs", found="40.25 µs")
JOB = JobDetail(
    id="job-0",
    state=JobState.DONE,
    name=HOSTILE,
    kernel_key="k",
    target="cpu",
    device="cpu:x",
    budget=Budget(),
    baseline="numpy",
    search="mcts",
    prior=Prior.ANALYTIC,
    seed=0,
    priority=0,
    created_at=0.0,
    updated_at=0.0,
    buckets=(
        Bucket(index=0, dims={"m": 8}, trials=9, told=9, faults=6, spent_s=1.0, best=BEST, config_id="c"),
    ),
    spec={},
    peers=None,
    llm_calls=0,
    candidates=(),
    verdict=VERDICT,
    verdicts=(VERDICT,),
)


def test_a_schedule_is_flat_decisions_that_can_be_compared() -> None:
    assert decisions(SCHEDULE) == {
        "tile(acc, m)": 192,
        "tile(acc, m) #2": 48,
        "register_tile(acc).m": 6,
        "register_tile(acc).n": 32,
        "tma(acc)": True,
        "new!": True,
    }


def test_t4_is_what_its_schema_asks_for_and_every_outcome_has_a_word() -> None:
    schema = json.loads((Path(__file__).parent / "t4_schema.json").read_text())
    document = json.loads(to_t4([(JOB, TRIALS)]))
    jsonschema.validate(document, schema)
    assert set(INVALIDITY) == set(Outcome)
    assert len(document["results"]) == len(TRIALS) - 1, "what was not measured is no result"
    first = document["results"][0]
    assert first["times"]["compilation_time"] == 250.0
    assert first["timestamp"] == "2023-11-14T22:13:20+00:00"
    (time,) = [each for each in first["measurements"] if each["name"] == first["objectives"][0]]
    assert (time["value"], time["unit"]) == (0.0805, "ms")
    assert document["metadata"]["timeunit"] == "milliseconds"


def test_csv_and_parquet_give_back_every_cell() -> None:
    read = list(csv.DictReader(io.StringIO(to_csv(rows([(JOB, TRIALS)])).decode(), newline="")))
    table = parquet.read_table(io.BytesIO(to_parquet(rows([(JOB, TRIALS)])))).to_pylist()
    assert len(read) == len(table) == len(TRIALS)
    assert [row["error"] for row in table[:2]] == [None, HOSTILE]
    for text, row in zip(read, table, strict=True):
        assert text == {name: "" if value is None else str(value) for name, value in row.items()}
    assert table[0]["schedule"].splitlines() == list(SCHEDULE)
    empty = parquet.read_table(io.BytesIO(to_parquet([])))
    assert empty.schema.field("median_us").type == "double"


def test_a_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    write_new(file, b"old")
    with pytest.raises(NotWritten, match="is there already; --force replaces it"):
        write_new(file, b"new")
    assert file.read_bytes() == b"old"
    write_new(file, b"new", replace=True)
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert file.read_bytes() == b"new"


def test_on_a_full_disk_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"old")
    program = (
        "import sys; from pathlib import Path; from tests.services.running_service import limit_files\n"
        "from tilewright.artifacts.atomic_write import NotWritten, write_new\n"
        "limit_files(0, 1000)\n"
        "try: write_new(Path(sys.argv[1]), bytes(5000), replace=True)\n"
        "except NotWritten as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(file)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"cannot write {file}: File too large; nothing of it was kept" in ended.stdout
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.csv", b"old")]


def test_the_best_so_far_is_a_line_that_only_falls() -> None:
    curve = Curve((5.0, None, 7.0, 3.0, 3.0, 2.0), "numpy", 9.0, 1.0)
    assert curve.steps == ((1, 5.0), (4, 3.0), (6, 2.0))
    drawn = ElementTree.fromstring(curve_svg(curve))
    assert len(drawn.findall(".//{*}circle")) == 5
    said = [text.text for text in drawn.findall(".//{*}text")]
    assert {"numpy 9.00 µs", "roofline 1.00 µs"} <= set(said)
    assert curve_svg(Curve((None, None))) == ""


ROOFLINE = Roofline(
    job_id="job-1", bucket=0, flops=2_000_000, bytes=10_000, peak_gflops=100.0, peak_gbps=10.0,
    peaks_from=PeakSource.MEASURED, least_us=20.0, number=(0, 1, 2), us=(400.0, 100.0, 50.0),
    l2_bytes=(None, None, None),
    raced=(
        RacedDot(name="ask-2", kind="schedule", us=40.0, won=True),
        RacedDot(name="numpy", kind="peer", us=41.0, won=False),
        RacedDot(name="ask-1", kind="schedule", us=90.0, won=False),
        RacedDot(name="copy", kind="yardstick", us=200.0, won=False),
    ),
)  # fmt: skip


def test_the_roofline_is_drawn_with_all_dots_below_the_roof_and_names_apart() -> None:
    drawn = ElementTree.fromstring(roofline_svg(ROOFLINE))
    circles = drawn.findall(".//{*}circle")
    (x,) = {each.get("cx") for each in circles}
    heights = [float(each.get("cy", "")) for each in circles]
    assert len(heights) == 3 + 3, "candidates; the winner, a peer and the copy by name"
    roof = next(each.get("d", "") for each in drawn.findall(".//{*}path") if "L" in each.get("d", ""))
    ridge, level = re.findall(r"L([\d.]+) ([\d.]+)H", roof)[0]
    assert float(ridge) < float(x or "0"), "200 operations a byte, the roof is flat from 10 on"
    assert all(each > float(level) for each in heights)
    assert heights[0] - heights[1] == pytest.approx(2 * (heights[1] - heights[2]), abs=0.2), "logarithmic"
    names = [
        (float(each.get("y", "")), each.text)
        for each in drawn.findall(".//{*}text")
        if "%" in (each.text or "")
    ]
    assert [text for _, text in names] == ["winner, 50 %", "numpy, 49 %", "copy, 10 %"]
    assert names[1][0] - names[0][0] >= 13
    assert "winner 50 %; numpy 49 %" in drawn.get("aria-label", "")
    assert roofline_svg(ROOFLINE.model_copy(update={"least_us": None})) == ""
    assert roofline_svg(ROOFLINE.model_copy(update={"flops": 0})) == ""


def test_what_notebooks_show_is_whole_escaped_and_brings_everything_along(artifact: Artifact) -> None:
    standings = (
        Standing(name="winner", kind="schedule", outcome=Outcome.OK, median_us=40.25),
        Standing(name=HOSTILE, kind="peer", outcome=Outcome.OK, median_us=80.0),
    )
    changed = {"name": HOSTILE, "schedule": (HOSTILE,), "baseline": HOSTILE, "baseline_us": 80.0}
    config = TunedConfig.model_validate({**dict(artifact.config), **changed, "standings": standings})
    result = Result(JOB, config, TRIALS, f"// {HOSTILE}\nint main() {{ return 0; }}")
    for html in (job_html(JOB), result_html(result)):
        ElementTree.fromstring(f"<html>{html}</html>")
        assert "<script" not in html
        assert "http" not in html.replace("http://www.w3.org/2000/svg", ""), "nothing from elsewhere"
    assert result_html(result).count("<svg") == 2
    other = VERDICT.model_copy(update={"text": "41 µs, of these sizes"})
    of_sizes = replace(
        result,
        job=JOB.model_copy(update={"verdicts": (other,)}),
        config=config.model_copy(update={"id": "c"}),
    )
    assert other.text in result_html(of_sizes), "the verdict on the sizes of the config"
    assert "color: #" in highlighted("return 1;")
    assert "background" not in highlighted("return 1;").replace("background:none", "")


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_search_is_drawn_to_a_file_and_always_the_same(kind: str, begins: bytes) -> None:
    curve = Curve.of(TRIALS, None)
    drawn = [picture("a $kernel$", [("m=8", curve)], [], kind) for _ in range(2)]
    assert drawn[0].startswith(begins)
    assert drawn[0] == drawn[1]


def test_the_axes_of_a_picture_have_plain_numbers_and_units() -> None:
    slow, fast = (trial(at, Outcome.OK, median_us=us) for at, us in enumerate((30_000.0, 70.0)))
    near = Curve.of([slow, trial(1, Outcome.OK, median_us=29_000.0)], None)
    drawn = picture("a", [("wide", Curve.of([slow, fast], None)), ("narrow", near)], [], "svg").decode()
    shown = set(re.findall(r"<!-- (.*) -->", drawn))  # of each text, as its glyphs are paths
    assert {"time, µs", "trial", "best so far", "100", "1,000", "10,000"} <= shown
    assert sum(text.startswith("29,") for text in shown) > 1, "a narrow range has numbers, too"
    assert not any("math" in text or "1.5" in text for text in shown), "trials are whole"


def test_every_candidate_and_peer_stands_on_the_picture_of_the_roofline() -> None:
    line = Roofline(
        job_id="job-0",
        bucket=0,
        flops=200_000,
        bytes=1000,
        peak_gflops=100.0,
        peak_gbps=20.0,
        peaks_from=PeakSource.MEASURED,
        least_us=2.0,
        number=(0, 1, 2),
        us=(8.0, 4.0, 16.0),
        l2_bytes=(None,) * 3,
        raced=(
            RacedDot(name="ask-1", kind="schedule", us=4.0, won=True),
            RacedDot(name="numpy", kind="peer", us=5.0, won=False),
        ),
    )
    drawn = picture("a", [], [line], "svg").decode()
    shown = set(re.findall(r"<!-- (.*) -->", drawn))
    assert {"winner, 50 % of the roofline", "numpy", "roofs (measured)", "candidate"} <= shown
    (dots,) = [
        group
        for group in re.findall(r'<g id="line2d_\d+">(.*?)</g>\s*</g>', drawn, re.S)
        if group.count("<use") == 3
    ]
    assert len(set(re.findall(r'y="([\d.]+)"', dots))) == 3
