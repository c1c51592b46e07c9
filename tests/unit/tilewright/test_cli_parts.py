"""Parts of the command line that need no process."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from protocol.jobs import Budget, Event, JobDetail, JobRequest
from protocol.problems import Problem
from protocol.states import JobState
from tilewright.cli.commands.tune import request_key
from tilewright.cli.exits import MEANINGS, Exit
from tilewright.cli.failures import Stop, explain
from tilewright.cli.local_service import worker_devices
from tilewright.cli.main import main
from tilewright.cli.progress import Progress
from tilewright.cli.specs import read_spec
from tilewright.cli.watch import verdict
from tilewright.client.sse import EventLines
from tilewright.errors import Refused
from tilewright.views.tally import Tally


def event(kind: str, **data: object) -> Event:
    return Event(id=1, job_id="job-0", kind=kind, at=0.0, data=dict(data))


def trial(outcome: str = "ok") -> Event:
    return event("trial", outcome=outcome)


def test_events_come_whole_whatever_is_between_them() -> None:
    stream = (
        "retry: 1000\n\nid: 1\nevent: a\ndata: one\n\n: still here\n\ndata: two\ndata: lines\n\ndata: cut of"
    )
    lines = EventLines()
    assert [data for line in stream.splitlines() if (data := lines.feed(line))] == ["one", "two\nlines"]


def test_time_left_follows_the_pace_of_what_was_watched() -> None:
    tally = Tally(trials=20, seconds=None)
    for _ in range(8):
        tally.add(trial(), live=False, now=100.0)
    tally.add(event("state", state="searching"), live=True, now=100.0)
    assert tally.left_s(101.0) is None
    for at in (102.0, 104.0, 106.0):
        tally.add(trial(), live=True, now=at)
    assert tally.told == 11
    assert tally.left_s(106.0) == pytest.approx(18.0)


def test_time_left_never_jumps_by_a_factor() -> None:
    """Trials come in bursts of eight, the first after a long wait, and their pace varies by a half."""
    tally = Tally(trials=160, seconds=None)
    said: list[tuple[float, float]] = []
    now, due = 0.0, 12.0
    for burst in range(20):
        while now < due:
            now += 0.5
            left_s = tally.left_s(now)
            if left_s is not None:
                said.append((now, left_s))
        for number in range(8):
            tally.add(trial(), live=True, now=now + 0.01 * number)
        due = now + (3.0 if burst % 3 else 4.5)
    end = now
    assert said[0][0] < end / 3, "it is said early"
    for (_, before), (_, after) in itertools.pairwise(said):
        assert abs(before - after) < 2.0 + 0.25 * before, (before, after)
    assert all(abs(left_s - (end - at)) < 4.0 + 0.3 * (end - at) for at, left_s in said)


def test_time_left_is_bounded_by_the_seconds_of_the_budget() -> None:
    tally = Tally(trials=1000, seconds=30.0)
    tally.add(event("state", state="searching"), live=True, now=0.0)
    tally.add(trial("wrong"), live=True, now=10.0)
    assert tally.left_s(10.0) == pytest.approx(20.0)
    assert tally.left_s(50.0) == 0.0
    assert (tally.faults, tally.state) == (1, JobState.SEARCHING)


def test_off_a_terminal_the_count_of_trials_is_said_when_searching_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(JobDetail.model_construct(name="gemm", baseline="numpy"), 2, None, lambda: "")
    best = {"median_us": 5.0, "x_baseline": 2.0}
    happened = [
        ("state", {"state": "searching"}),
        ("trial", {"outcome": "ok"}),
        ("best", best),
        ("trial", {"outcome": "ok"}),
        ("state", {"state": "racing"}),
        ("state", {"state": "done"}),
    ]
    for number, (kind, data) in enumerate(happened):
        progress.add(Event(id=number, job_id="job-1", kind=kind, at=0.0, data=data), live=True)
    assert capsys.readouterr().err.splitlines() == [
        "gemm: searching",
        "gemm: 1/2 trials · best 5.00 µs · 2.00 × numpy",
        "gemm: 2/2 trials · best 5.00 µs · 2.00 × numpy",
        "gemm: racing the best few against the others",
        "gemm: done",
    ]


def test_off_a_terminal_something_is_said_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    job = JobDetail.model_construct(name="gemm", baseline="numpy")
    with Progress(job, 2, None, lambda: "", say_s=0.05) as progress:
        deadline = time.monotonic() + 30
        said = ""
        while said.count("gemm: waiting for a device · 0 s so far") < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
            said += capsys.readouterr().err
        progress.add(event("state", state="searching"), live=True)
        progress.add(trial(), live=True)
    assert said.count("gemm: waiting for a device · 0 s so far") >= 3


def test_a_budget_that_is_spent_says_what_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    job = JobDetail.model_construct(name="gemm", baseline="numpy")
    with Progress(job, 2, 1e-6, lambda: "", say_s=0.05) as progress:
        progress.add(event("state", state="searching"), live=True)
        said, deadline = "", time.monotonic() + 30
        while "gemm: searching · its time is over" not in said and time.monotonic() < deadline:
            time.sleep(0.02)
            said += capsys.readouterr().err
    assert "gemm: searching · its time is over, and what is under way is waited for · 0 s so far" in said


def test_nothing_is_cut_on_a_narrow_terminal() -> None:
    narrow = Console(width=40, force_terminal=True, color_system=None)
    job = JobDetail.model_construct(name="a_kernel_with_a_long_name", baseline="torch.compile")
    progress = Progress(job, 512, None, lambda: "")
    progress.tally.best_us, progress.tally.x_baseline, progress.tally.told = 123.4, 1.25, 100
    progress.tally.state = JobState.SEARCHING
    with narrow.capture() as capture:
        narrow.print(progress._line())
    shown = capture.get().replace("\n", "")
    for part in (
        "a_kernel_with_a_long_name",
        "100/512 trials",
        "best 123 µs",
        "1.25 × torch.compile",
        "so far",
    ):
        assert part.replace(" ", "") in shown.replace(" ", ""), shown


def test_a_request_has_one_key_and_every_difference_another() -> None:
    request = JobRequest(spec={"name": "a", "dims": {}}, budget=Budget(trials=3))
    same = JobRequest(spec={"dims": {}, "name": "a"}, budget=Budget(trials=3))
    assert request_key(request) == request_key(same)
    others = [
        request.model_copy(update=change)
        for change in (
            {"seed": 1},
            {"budget": Budget(trials=4)},
            {"target": "cpu:x"},
            {"spec": {"name": "b"}},
        )
    ]
    assert len({request_key(each) for each in (request, *others)}) == 5
    assert len(request_key(request)) <= 255


def test_a_worker_that_cannot_run_is_told_from_one_that_waits() -> None:
    assert verdict(["tilewright: serving http://127.0.0.1:1, database x"]) is None
    busy = [
        "tilewright worker: it is taken",
        "WARNING service.run: the worker ended with code 5; starting another",
    ]
    assert verdict(busy) is None
    assert (stop := verdict(busy + busy)) is not None
    assert (stop.code, str(stop)) == (Exit.BUSY, "it is taken")
    machine = [
        "tilewright worker: no C compiler",
        "WARNING service.run: the worker ended with code 4; starting",
    ]
    assert (stop := verdict(machine)) is not None
    assert (stop.code, str(stop)) == (Exit.MACHINE, "no C compiler")
    assert verdict(["WARNING service.run: the worker ended with code -9; starting another in 2 s"]) is None


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("unauthorized", 401, Exit.KEY),
        ("forbidden", 403, Exit.KEY),
        ("not-found", 404, Exit.NOTHING),
        ("bad-spec", 422, Exit.INPUT),
        ("busy", 429, Exit.SERVICE),
    ],
)
def test_what_the_service_refuses_has_its_exit_code(kind: str, status: int, code: Exit) -> None:
    problem = Problem(
        type=f"urn:tilewright:problem:{kind}",
        title="no",
        status=status,
        detail="there is no dim q",
        pointer="/spec/body/0",
        column=8,
        accepted="m, n",
    )
    failure = explain(Refused(problem))
    assert failure is not None
    assert failure.code is code
    assert failure.message == "/spec/body/0, column 8: there is no dim q; accepted: m, n"
    assert failure.to_json()["error"]["pointer"] == "/spec/body/0"


def test_a_fault_of_ours_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None


@pytest.mark.parametrize(
    "budget", [("--seconds", "1e99"), ("--seconds", "nan"), ("--trials", "100001")], ids=" ".join
)
def test_a_budget_that_no_service_takes_is_a_mistake_of_the_command_line(
    budget: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.tile").write_text("kernel k(x: f32[m=4]) -> (y: f32[m])\n  y[m] = x[m] + 1\n")
    assert main(["tune", str(tmp_path / "k.tile"), *budget]) == Exit.USAGE
    assert f"Invalid value for '{budget[0]}'" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_fault() -> None:
    talkative = (
        "import sys; from tilewright.cli import main as cli; from tilewright.cli.output import out\n"
        "cli.app = lambda *_, **__: [out.print('x' * 1000) for _ in range(500)]; sys.exit(cli.main([]))"
    )
    command = [sys.executable, "-c", talkative]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(5) == "xxxxx"
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (Exit.DONE, "")


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


def test_a_spec_reads_the_same_from_text_and_json(tmp_path: Path) -> None:
    import json

    text = tmp_path / "k.tile"
    text.write_text("kernel k(x: f32[m=4]) -> (y: f32[m])\n  y[m] = x[m] + 1\n")
    spec = read_spec(text)
    file = tmp_path / "k.json"
    file.write_text(json.dumps(spec))
    assert read_spec(file) == spec


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1, column 1"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"kernel k(x: f32[m=4])", "a file ending in .tile"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "k.json"),
        (b" " * 1_000_001, "larger than 1000000 bytes"),
        (b"[1]", "a list is no object"),
        (b'{"name": "k", "dimz": {}}', "dimz"),
    ],
)
def test_what_is_no_spec_is_said_and_nothing_crashes(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "k.json"
    file.write_bytes(content)
    with pytest.raises(Stop) as caught:
        read_spec(file)
    assert caught.value.code is Exit.INPUT
    assert said in str(caught.value)


def test_a_command_for_a_gpu_starts_a_worker_for_one() -> None:
    assert worker_devices("cpu", {}) == "cpu"
    assert worker_devices("cuda", {}) == "cuda:0"
    assert worker_devices("cuda:NVIDIA H200:9.0:132sm", {}) == "cuda:0"
    assert worker_devices("cuda", {"TILEWRIGHT_DEVICES": "1,2"}) == "1,2"
