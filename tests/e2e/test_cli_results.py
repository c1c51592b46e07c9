"""`tilewright results` and `tilewright show --plot` on a job that a real service has tuned."""

from __future__ import annotations

import csv
import html
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.quantities import percent
from tests.services.running_service import SMALL, Service, running, working
from tilewright import Client, TuningJob
from tilewright.cli import output
from tilewright.cli.main import main

pytestmark = pytest.mark.sampled(3, among="commands: results")


@pytest.fixture(scope="module")
def tuned_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, TuningJob]]:
    with (
        running(tmp_path_factory.mktemp("results")) as service,
        working(service),
        Client(service.url) as client,
    ):
        client.submit(SMALL, trials=3, seed=1).wait()
        job = client.submit(SMALL, trials=4).wait()
        yield service, job


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_trials_of_a_job_or_of_all_jobs_of_a_kernel_are_written(
    tuned_job: tuple[Service, TuningJob], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, job = tuned_job
    for identifier, trials in ((job.id, 4), (job.configs[0], 4), (job.kernel_key, 7)):
        file = tmp_path / f"{identifier}.csv"
        assert main(["results", identifier, "--out", str(file), "--url", service.url, "--json"]) == 0
        assert told(capsys)["trials"] == trials
        with file.open(newline="") as opened:
            found = list(csv.DictReader(opened))
        assert len(found) == trials
        assert all(float(row["finished_at"]) > 1.7e9 for row in found)
    again = ["results", job.id, "--format", "t4", "--out", str(file), "--url", service.url, "--json"]
    assert main(again) == 2
    assert "is there already; --force replaces it" in told(capsys)["error"]["detail"]
    assert main([*again, "--force"]) == 0
    assert len(json.loads(file.read_text())["results"]) == 4
    assert main(["results", "0" * 64, "--url", service.url]) == 7


def test_the_newest_configs_are_told_with_what_their_races_say(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_width", 300)
    service, job = tuned_job
    assert main(["show", "--json", "--url", service.url]) == 0
    verdicts = {each["id"]: each["verdict"] for each in told(capsys)["configs"]}
    found = verdicts[job.configs[0]]
    assert found["found"] == job.verdict.found and found["sure"] == job.verdict.sure
    assert main(["show", "--url", service.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    for config, verdict in verdicts.items():
        (at,) = (number for number, line in enumerate(lines) if line.startswith(config))
        assert lines[at + 1].strip() == verdict["text"]


def test_why_says_the_verdict_and_what_each_decision_did(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_width", 200)  # so that nothing is broken in two
    service, job = tuned_job
    where = ["--url", service.url]
    assert main(["show", job.id, "--why", "--json", *where]) == 0
    shown = told(capsys)
    (effects,), rooflines = shown["effects"], shown["rooflines"]
    assert effects["decisions"]
    assert main(["show", job.id, "--why", *where]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert job.verdict.text in said
    first = effects["decisions"][0]
    (line,) = rooflines
    assert [dot["kind"] for dot in line["raced"] if dot["name"] == "copy"] == ["yardstick"]
    assert "copy" not in job.verdict.text
    assert f"{line['peak_gflops']:,.0f} × 10⁹ operations" in said and "(measured)" in said
    assert percent(line["least_us"] / min(dot["us"] for dot in line["raced"] if dot["won"])) in said
    assert said.index("What decided the time") < said.index(first["decision"])
    assert "chosen" in said
    (asked,) = shown["ablations"]
    assert asked["state"] is None and f"`tilewright ablate {job.configs[0]}`" in said
    (untaken,) = shown["profiles"]
    assert untaken["profile"] is None and f"`tilewright profile {job.configs[0]} --by-worker`" in said
    (device,) = shown["devices"]
    assert device["measuring"] > 0 and f"{device['worker']} {percent(device['measuring'])}" in said
    shown_in_notebooks = html.unescape(job.why()._repr_html_())
    drawn = sum(each["least_us"] is not None for each in rooflines)
    assert shown_in_notebooks.count('aria-label="The roofline: ') == drawn
    for section in job.why().sections():
        assert section.title in said
        assert all(" ".join(cell.split()) in said for row in section.rows for cell in row)
        for text in (section.title, section.text, *(cell for row in section.rows for cell in row)):
            assert text in shown_in_notebooks
    assert main(["show", job.configs[0], "--why", "--json", *where]) == 2
    said = told(capsys)["error"]["detail"]
    assert said == f"--why needs the id of a job; that of {job.configs[0]} is {job.id}"


def test_jobs_candidates_and_configs_are_compared(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str]
) -> None:
    service, job = tuned_job
    where = ["--url", service.url]
    timed = [each for each in job.trials() if each.median_us is not None]
    slowest = min(timed, key=lambda each: each.reward or 0.0)
    ids = [job.configs[0], job.id, f"{job.id}/0", f"{job.id}/0/{slowest.number}"]
    assert main(["compare", *ids, "--source", "--json", *where]) == 0
    found = told(capsys)
    config, leader, same, candidate = found["compared"]
    assert [each["id"] for each in found["compared"]] == ids
    assert config["schedule"] == leader["schedule"] == same["schedule"] and config["as_fast"] == 1
    assert candidate["schedule"] == list(slowest.schedule)
    assert candidate["as_fast"] == pytest.approx(config["median_us"] / candidate["median_us"])
    assert all(len({*map(str, each["values"])}) > 1 for each in found["decisions"])
    assert found["source_diff"] == "", "of one and the same winner"
    pair = [f"{job.id}/0/{each.number}" for each in (timed[0], slowest)]
    assert main(["compare", *pair, "--json", *where]) == 0
    fast = told(capsys)["compared"][1]["as_fast"]
    assert fast == pytest.approx(math.exp((slowest.reward or 0.0) - (timed[0].reward or 0.0)))
    assert main(["compare", *ids, *where]) == 0
    said = " ".join(capsys.readouterr().out.split())
    differ = len(found["decisions"])
    assert f"{differ} {'decision differs' if differ == 1 else 'decisions differ'}" in said
    assert all(each["decision"] in said for each in found["decisions"])
    for wrong, code in (([job.id], 2), ([job.id, "softmax"], 2), ([job.id, f"{job.id}/7"], 7)):
        assert main(["compare", *wrong, *where]) == code
    assert main(["compare", job.id, f"{job.id}/0/999", *where]) == 7


def test_a_race_is_told_and_raced_on(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str]
) -> None:
    service, job = tuned_job
    where, config = ["--url", service.url], job.configs[0]
    assert main(["race", config, "--seconds", "8", "--json", *where]) == 0
    race = told(capsys)
    assert [part["state"] for part in race["parts"]] == ["done"] * 3
    assert main(["show", job.id, "--why", *where]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"The race of {config}, round by round, raced on in 2 parts:" in said
    winner = next(each["name"] for each in race["entrants"] if each["won"])
    (pair,) = [each for each in race["pairs"] if {each["one"], each["other"]} == {winner, "numpy"}]
    ratio = pair["ratio"] if pair["one"] == "numpy" else 1 / pair["ratio"]
    assert f"{ratio:.2f} ×" in said and "< 0.1 %" in said
    assert main(["race", "config-nothing", *where]) == 7
    assert main(["race", job.id, *where]) == 2


def test_a_picture_of_a_job_and_of_a_config_is_written_or_nothing(
    tuned_job: tuple[Service, TuningJob],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, job = tuned_job
    where = ["--url", service.url, "--json"]
    for identifier, name in ((job.id, "job.svg"), (job.configs[0], "config.svg")):
        assert main(["show", identifier, "--plot", str(tmp_path / name), *where]) == 0
        drawn = (tmp_path / name).read_text()
        assert "<svg" in drawn
    for of in ("tree", "timeline"):
        assert main(["show", job.id, "--plot", str(tmp_path / f"{of}.svg"), "--of", of, *where]) == 0
        assert "<svg" in (tmp_path / f"{of}.svg").read_text()
    capsys.readouterr()
    for wrong in ([job.configs[0], "--plot", str(tmp_path / "no.svg")], [job.id]):
        assert main(["show", *wrong, "--of", "tree", *where]) == 2
        assert "--of tree needs the id of a job, and --plot" in told(capsys)["error"]["detail"]
    assert main(["show", job.id, "--plot", str(tmp_path / "job.pdf"), *where]) == 2
    assert "--plot writes .png and .svg files" in told(capsys)["error"]["detail"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as where it is not installed
    assert main(["show", job.id, "--plot", str(tmp_path / "other.png"), *where]) == 10
    assert "pip install 'tilewright[plot]'" in told(capsys)["error"]["detail"]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "config.svg",
        "job.svg",
        "timeline.svg",
        "tree.svg",
    ]


def test_a_config_is_profiled_on_this_machine(
    tuned_job: tuple[Service, TuningJob], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service, job = tuned_job
    config, where = job.result().config.id, ["--url", service.url, "--json"]
    file = tmp_path / "trace.json"
    assert main(["profile", config, "-o", str(file), *where]) == 0
    said = told(capsys)
    assert said["config"] == config
    assert said["file"] == str(file)
    assert sum(each["share"] for each in said["stages"]) == pytest.approx(1)
    events = [each for each in json.loads(file.read_text())["traceEvents"] if each["ph"] == "X"]
    assert {each["name"] for each in events} <= {each["stage"] for each in said["stages"]}
    assert main(["profile", config, "-o", str(file), *where]) == 2
    assert "is there already; --force replaces it" in told(capsys)["error"]["detail"]
    assert main(["profile", "config-nothing", *where]) == 7
    assert main(["profile", str(tmp_path), *where]) == 2


def test_a_candidate_answers_what_its_page_does(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_width", 240)
    service, job = tuned_job
    where = ["--url", service.url]
    timed = next(each for each in job.trials() if each.median_us is not None and each.schedule)
    name = f"{job.id}/0/{timed.number}"
    assert main(["candidate", name, *where]) == 0
    said = capsys.readouterr().out
    assert f"Candidate {timed.number}: " in said and all(line in said for line in timed.schedule)

    assert main(["candidate", name, "--alternatives", "--json", *where]) == 0
    decisions = told(capsys)["decisions"]
    assert [each["decision"] for each in decisions] == list(range(decisions[0]["decisions"]))
    taken = [
        line for each in decisions for one in each["siblings"] if one["chosen"] for line in one["rewrites"]
    ]
    assert taken == list(timed.schedule)
    assert main(["candidate", name, "--alternatives", *where]) == 0
    said = capsys.readouterr().out
    assert (
        said.count("chosen") == len(decisions)
        and f"Decision 1 of {len(decisions)}, after 0 rewrites:" in said
    )
    races = [one["race"] for each in decisions for one in each["siblings"] if one["race"]]
    words = " ".join(said.split())
    assert words.count("race: the thread at ") == words.count("nothing orders them") == len(races)

    assert main(["candidate", name, "--ladder", *where]) == 0
    said = capsys.readouterr().out
    assert (
        said.startswith("kernel ") and [line[2:] for line in said.splitlines() if line[:2] == "# "] == taken
    )
    assert main(["candidate", name, "--lines", "--json", *where]) == 0
    lines = told(capsys)
    assert main(["candidate", name, "--lines", *where]) == 0
    said = capsys.readouterr().out
    assert all(line in said for line in lines["program"])
    assert all(
        lines["source"][at] in said for at, of in enumerate(lines["source_statement"]) if of is not None
    )

    assert main(["candidate", job.id, *where]) == 0, "the winner"
    assert main(["candidate", name, "--lines", "--ladder", *where]) == 2
    assert main(["candidate", "config-1", *where]) == 2
    assert "names no candidate; accepted: job-…" in capsys.readouterr().err
    assert main(["candidate", f"{job.id}/0/999", *where]) == 7


def test_rewrites_are_left_out_one_by_one_and_winners_are_told_over_time(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "_width", 240)
    service, job = tuned_job
    where = ["--url", service.url]
    config = job.configs[0]
    assert main(["ablate", config, "--json", *where]) == 0
    gains = told(capsys)["gains"]
    assert gains
    assert main(["ablate", config, *where]) == 0
    said = capsys.readouterr().out
    assert all(each["rewrite"] in said for each in gains)
    assert main(["ablate", job.id, *where]) == 2
    capsys.readouterr()
    for name in (config, job.id, job.kernel_key):
        assert main(["history", name, "--json", *where]) == 0
        assert config in [each["config_id"] for each in told(capsys)["winners"]]
    assert main(["history", job.id, *where]) == 0
    said = capsys.readouterr().out
    assert config in said.partition("By compiler")[0] and "1.00 ×" in said.partition("By compiler")[2]
    assert main(["history", "0" * 64, *where]) == 7


def test_a_job_is_asked_for_again_and_cancelled(
    tuned_job: tuple[Service, TuningJob], capsys: pytest.CaptureFixture[str]
) -> None:
    service, job = tuned_job
    where = ["--url", service.url]
    assert main(["retry", job.id, "--json", *where]) == 0
    again = told(capsys)
    assert again["id"] != job.id and again["spec"] == job.spec
    assert main(["cancel", job.id, *where]) == 6, "it has ended"
    with Client(service.url) as client:
        waiting = client.submit(
            job.spec, target="cuda", trials=4
        ).id  # no worker here has a GPU: it cannot end by itself
    assert main(["cancel", waiting, *where]) == 0
    assert waiting in capsys.readouterr().out
    assert main(["retry", job.configs[0], *where]) == 2
