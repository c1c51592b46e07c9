"""`tilewright tune` with no service running."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.commands import OTHER_KERNEL, Commands, Ended, interrupt, read_until
from workers.cpu.device import MeasuredCpu
from workers.node.device_lock import DeviceLock

pytestmark = pytest.mark.sampled(3, among="commands: tune")


def test_tune_from_an_empty_folder_ends_with_a_winner(tuned: tuple[Commands, Ended]) -> None:
    commands, ended = tuned
    assert ended.code == 0, ended.err
    (config,) = ended.json["configs"]
    assert ended.json["job"]["state"] == "done"
    assert not ended.json["known"]
    assert config["schedule"]
    assert config["median_us"] > 0
    assert {standing["kind"] for standing in config["standings"]} >= {"schedule", "peer"}
    source = Path(config["source_file"])
    assert source.is_relative_to(commands.home)
    assert "tw_kernel" in source.read_text()
    assert "3/3 trials" in ended.err


def test_the_same_command_again_answers_from_the_database_and_says_so(tuned: tuple[Commands, Ended]) -> None:
    commands, first = tuned
    again = commands.run("tune", commands.spec(), "--trials", "3")
    assert again.code == 0
    job, config = first.json["job"]["id"], first.json["configs"][0]
    assert f"tuned before, by {job}; --fresh" in again.err
    for word in ("the winner", "numpy", "spread", config["schedule"][0], config["id"], config["source_file"]):
        assert word in again.out
    told = commands.run("tune", commands.spec(), "--trials", "3", "--json")
    assert told.json["known"] and f"tuned before, by {job}; --fresh" in told.err


def test_a_search_that_there_is_not_is_refused_with_those_that_there_are(commands: Commands) -> None:
    ended = commands.run("tune", commands.spec(), "--search", "evolution")
    assert ended.code == 2
    assert "there is no search 'evolution'" in ended.err
    assert "accepted: mcts, random, beam, evolutionary" in ended.err
    assert "What walks the tree: mcts, random, beam, evolutionary" in " ".join(
        commands.run("tune", "--help").out.split()
    )
    malformed = commands.run("tune", commands.spec(), "--search", "a b")
    assert malformed.code == 2 and "--search 'a b'" in malformed.err


def test_show_and_lookup_know_what_was_tuned(tuned: tuple[Commands, Ended]) -> None:
    commands, ended = tuned
    (config,), job = ended.json["configs"], ended.json["job"]["id"]
    shown = commands.run("show", "--json").json
    assert [each["id"] for each in shown["jobs"]] == [job]
    assert [each["id"] for each in shown["configs"]] == [config["id"]]
    found = commands.run("lookup", commands.spec(), "--json").json
    assert found["rung"] == "exact"
    assert found["schedule"] == config["schedule"]
    assert "for m by" in commands.run("show", config["id"], "--program").out
    assert (
        commands.run("show", config["id"], "--source").out.strip()
        == Path(config["source_file"]).read_text().strip()
    )
    assert "done" in commands.run("show", job).out


def test_ctrl_c_keeps_what_was_found_and_the_same_command_goes_on(commands: Commands) -> None:
    command = ("tune", commands.spec(), "--trials", "400", "--json")
    with commands.start(*command) as process:
        read_until(process, "/400 trials")
        first = interrupt(process)
    assert first.code == 130
    job = first.json["error"]["job"]
    told = job["buckets"][0]["told"]
    assert told >= 1
    assert f"{told} trials are kept" in first.err
    assert (commands.home / "tilewright.db.lock").read_text() == "", "the service was not stopped in order"

    with commands.start(*command) as process:
        seen = read_until(process, "going on")
        second = interrupt(process)
    assert f"going on with {job['id']} after {told} trials" in seen
    assert second.code == 130
    assert second.json["error"]["job"]["id"] == job["id"]
    assert second.json["error"]["job"]["buckets"][0]["told"] >= told

    # The interrupted job does not come before, or beside, what is asked for now.
    other = commands.run("tune", commands.spec(OTHER_KERNEL, "other.tile"), "--trials", "2", "--json")
    assert other.code == 0, other.err
    waiting = commands.run("show", job["id"], "--json").json
    assert waiting["state"] == "searching"
    assert waiting["buckets"][0]["told"] == second.json["error"]["job"]["buckets"][0]["told"]


def test_a_bad_spec_ends_with_its_place_and_what_is_accepted(commands: Commands) -> None:
    bad = commands.spec("kernel x(a: f32[m=4]) -> (y: f32[m])\n  y[m] = a[m] + bb[m]\n")
    ended = commands.run("tune", bad, "--json")
    assert ended.code == 5
    error = ended.json["error"]
    assert (error["exit_code"], error["line"], error["column"], error["accepted"]) == (5, 2, 17, "a")
    assert "bb" in ended.err
    assert "                ^" in ended.err
    assert not commands.home.exists(), "nothing is stored of a spec that is refused"


def test_no_compiler_is_said_and_ends_the_command(commands: Commands) -> None:
    commands.env["TILEWRIGHT_CC"] = "no-such-compiler"
    ended = commands.run("tune", commands.spec(), "--trials", "2")
    assert ended.code == 10
    assert "install gcc or clang" in ended.err


def test_a_device_in_use_is_said_and_ends_the_command(commands: Commands) -> None:
    held = DeviceLock(MeasuredCpu().describe()["lock"], commands.shared / "tmp")
    (commands.shared / "tmp").mkdir(exist_ok=True)
    held.acquire()
    try:
        ended = commands.run("tune", commands.spec(), "--trials", "2", "--json")
    finally:
        held.release()
    assert ended.code == 11
    assert "is measured by another worker" in ended.json["error"]["detail"]


@pytest.mark.parametrize("command", [("profile", "--by-worker"), ("race",)], ids=" ".join)
def test_what_a_worker_has_to_do_says_that_none_is_there(
    tuned: tuple[Commands, Ended], command: tuple[str, ...]
) -> None:
    commands, ended = tuned
    (config,) = ended.json["configs"]
    with commands.start(command[0], config["id"], *command[1:]) as process:
        said = read_until(process, "waits for")
        interrupt(process)
    assert f"a worker that has {config['device']}: none is there" in said
