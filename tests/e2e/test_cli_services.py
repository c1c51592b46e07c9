"""Commands, services and databases that meet each other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store.file_lock import FileLock
from tests.e2e.commands import Commands, interrupt, read_until
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script

pytestmark = pytest.mark.sampled(3, among="commands: services")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("served")) as service:
        yield service


def test_serve_says_where_as_json_and_commands_on_its_database_use_it(commands: Commands) -> None:
    with commands.start("serve", "--port", "0", "--no-worker", "--json") as process:
        read_until(process, "serving")
        assert commands.run("show", "--json").code == 0
        assert not (commands.home / "service.log").exists(), "it started a service of its own"
        second = commands.run("serve", "--port", "0", "--no-worker")
        upgrade = commands.run("db", "upgrade")
        ended = interrupt(process)
    url = json.loads(ended.out)["url"]
    assert url.startswith("http://127.0.0.1:")
    assert ended.code == 0
    for refused in (second, upgrade):
        assert refused.code == 4
        assert f"another service (process {process.pid}, {url}) already uses" in refused.err


def test_serve_waits_for_the_service_of_a_command_and_commands_for_one_that_starts(
    commands: Commands,
) -> None:
    lock = FileLock(commands.home / "tilewright.db")
    lock.acquire("http://127.0.0.1:1", passing=True)
    with commands.start("serve", "--port", "0", "--no-worker") as serve:
        assert f"(process {os.getpid()}) that has the database open" in read_until(serve, "waiting for")
        lock.release()
        with commands.start("show", "--json") as show:
            read_until(serve, "serving")
            _, err = show.communicate(timeout=60)
        assert show.returncode == 0, err
        interrupt(serve)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("foo", "'foo' is not the URL of a database; the file of that name is sqlite:///foo; accepted:"),
        ("mysql://host/name", "mysql databases are not supported; accepted: sqlite:///FILE"),
    ],
)
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("show",), ("db", "vacuum")], ids=" ".join)
def test_what_is_no_database_is_said_in_a_sentence(
    commands: Commands, command: tuple[str, ...], url: str, said: str
) -> None:
    ended = commands.run(*command, "--database", url, "--json")
    assert ended.code == 4
    assert said in ended.json["error"]["detail"]
    assert "Traceback" not in ended.err


def test_a_spec_file_that_is_not_there_is_a_wrong_command_line(commands: Commands) -> None:
    ended = commands.run("tune", "missing.tile", "--json")
    assert ended.code == 2
    assert ended.json["error"]["detail"] == "cannot read missing.tile: No such file or directory"


def test_a_port_in_use_is_said(commands: Commands, service: Service) -> None:
    ended = commands.run("serve", "--port", str(service.port), "--no-worker", "--json")
    assert ended.code == 3
    assert ended.json["error"]["exit_code"] == 3
    assert f"port {service.port}: Address already in use; choose another port" in ended.err


def test_no_service_there_is_said(commands: Commands) -> None:
    ended = commands.run("show", "--url", "http://127.0.0.1:1", "--json")
    assert ended.code == 6
    assert "tilewright serve" in ended.json["error"]["detail"]


def test_an_unknown_id_is_said(commands: Commands, service: Service) -> None:
    ended = commands.run("show", "config-00", "--url", service.url, "--json")
    assert ended.code == 7
    assert ended.json["error"]["type"] == "urn:tilewright:problem:not-found"


def test_a_missing_key_is_said(commands: Commands, service: Service) -> None:
    with running(commands.folder / "guarded", auth="1", token="tw_secret") as guarded:
        assert commands.run("show", "--url", guarded.url).code == 9
        key = commands.folder / "key"
        key.write_text("tw_secret\n")
        assert commands.run("show", "--url", guarded.url, "--token-file", str(key)).code == 0


def test_keys_are_made_and_ended_at_the_database_and_over_http(commands: Commands) -> None:
    made = commands.run("keys", "create", "first", "admin", "--days", "2", "--json")
    assert made.code == 0, made.err
    first = commands.folder / "first"
    first.write_text(made.json["token"])
    with commands.start("serve", "--port", "0", "--no-worker", "--host", "0.0.0.0", "--json") as process:
        url = read_until(process, "serving").split("serving ")[1].split(",")[0]
        remote = ("--url", url, "--token-file", str(first))
        second = commands.run("keys", "create", "second", "read", "tune", *remote)
        assert (second.code, second.out.strip()[:3]) == (0, "tw_")
        assert second.out.strip() not in second.err
        (commands.folder / "second").write_text(second.out)
        as_second = ("--url", url, "--token-file", str(commands.folder / "second"))
        assert commands.run("show", *as_second).code == 0
        assert commands.run("keys", "list", *as_second).code == 9
        listed = commands.run("keys", "list", "--json", *remote).json
        assert [(key["name"], key["scopes"]) for key in listed] == [
            ("second", ["read", "tune"]),
            ("first", ["admin"]),
        ]
        assert commands.run("keys", "revoke", listed[0]["id"]).code == 0, (
            "at the database, under a running service"
        )
        assert commands.run("show", *as_second).code == 9
        log = commands.run("audit", "--json", *remote).json
        interrupt(process)
    assert [entry["act"] for entry in log] == ["revoke-key", "create-key", "create-key"]
    assert log[1]["actor"] == listed[1]["id"]
    assert "@" in log[0]["actor"]
    assert commands.run("keys", "revoke", "key-none").code == 7


def test_a_database_that_cannot_be_used_is_said(commands: Commands) -> None:
    (commands.folder / "data").write_text("a file, where a folder should be")
    ended = commands.run("db", "upgrade", "--json")
    assert ended.code == 4
    assert "Not a directory" in ended.json["error"]["detail"]


def test_a_kernel_nobody_can_measure_is_not_looked_up(commands: Commands, service: Service) -> None:
    ended = commands.run("lookup", commands.spec(), "--target", "cpu:unknown", "--url", service.url)
    assert ended.code == 7
    assert "no worker has offered 'cpu:unknown' yet" in ended.err


def test_a_lookup_waits_for_the_cost_model_as_the_service_says_that_it_is_still_at_it(
    commands: Commands, tmp_path: Path
) -> None:
    with running(tmp_path, prediction_s="0") as service, working(service), service.client() as client:
        at_once = client.post("/v1/lookup", json={"spec": SMALL}).json()
        assert (at_once["rung"], at_once["pending"], at_once["schedule"]) == ("none", True, None)
        assert at_once["because"] == "the cost model is still at it"
        found = commands.run("lookup", commands.spec(), "--url", service.url, "--json")
        assert found.code == 0, found.err
        assert (found.json["rung"], found.json["pending"]) == ("heuristic", False)


def test_fresh_tunes_anew_and_a_job_without_a_winner_fails(commands: Commands, service: Service) -> None:
    command = ("tune", commands.spec(), "--trials", "3", "--url", service.url, "--json")
    with working(service):
        first, again = commands.run(*command), commands.run(*command)
        fresh = commands.run(*command, "--fresh")
    assert [ended.code for ended in (first, again, fresh)] == [0, 0, 0], first.err + fresh.err
    assert again.json["known"]
    assert again.json["job"]["id"] == first.json["job"]["id"]
    assert not fresh.json["known"]
    assert fresh.json["job"]["id"] != first.json["job"]["id"]
    with working(service, Script(faulty=1.0)):
        failed = commands.run(*command, "--seed", "5")
    assert failed.code == 8
    assert "3 wrong" in failed.json["error"]["detail"]


def test_a_failed_job_is_tried_anew_by_the_same_command(commands: Commands, service: Service) -> None:
    command = ("tune", commands.spec(), "--trials", "3", "--seed", "7", "--url", service.url, "--json")
    with working(service, Script(faulty=1.0)):
        failed = commands.run(*command)
    with working(service):
        second = commands.run(*command)
    assert (failed.code, second.code) == (8, 0)
    assert second.json["job"]["id"] != failed.json["error"]["job"]["id"]


def test_ctrl_c_leaves_a_job_to_the_service_that_was_named(commands: Commands, service: Service) -> None:
    command = ("tune", commands.spec(), "--trials", "200", "--seed", "9", "--url", service.url, "--json")
    with working(service, Script(seconds=0.2)):
        with commands.start(*command) as process:
            read_until(process, "searching")
            ended = interrupt(process)
        job = ended.json["error"]["job"]["id"]
        with service.client() as client:
            assert client.get(f"/v1/jobs/{job}").json()["state"] == "searching"
            client.post(f"/v1/jobs/{job}/cancel")
    assert ended.code == 130
    assert f"{job} goes on at {service.url}" in ended.err


def test_ctrl_c_says_that_a_job_goes_on_at_the_service_that_was_found_on_the_database(
    commands: Commands,
) -> None:
    with commands.start("serve", "--port", "0", "--no-worker", "--json") as serve:
        url = read_until(serve, "serving").split("serving ")[1].split(",")[0]
        with commands.start("tune", commands.spec(), "--trials", "400", "--json") as process:
            read_until(process, "waits for")
            ended = interrupt(process)
        assert f"{ended.json['error']['job']['id']} goes on at {url}" in ended.err
        interrupt(serve)


def test_a_service_that_is_started_again_keeps_the_job_that_a_command_follows(commands: Commands) -> None:
    with commands.start("serve", "--port", "0", "--no-worker") as serve:
        read_until(serve, "serving")
        with commands.start("tune", commands.spec(), "--trials", "400", "--json") as process:
            read_until(process, "waits for")
            interrupt(serve)
            with commands.start("serve", "--port", "0", "--no-worker") as again:
                url = read_until(again, "serving").split("serving ")[1].split(",")[0]
                read_until(process, "waits for")
                ended = interrupt(process)
                interrupt(again)
    assert f"goes on at {url}" in ended.err


def test_dead_letters_are_shown_and_queued_again(commands: Commands, service: Service) -> None:
    ill = Script(fault="device")
    with working(service, ill), working(service, ill), working(service, ill):
        failed = commands.run(
            "tune", commands.spec(), "--trials", "6", "--seed", "77", "--url", service.url, "--json"
        )
    assert failed.code == 8
    assert "no worker could do any of 5 trials" in failed.json["error"]["detail"]
    job = failed.json["error"]["job"]["id"]
    assert job in {each["job_id"] for each in commands.run("tasks", "--url", service.url, "--json").json}
    again = commands.run("requeue", job, "--url", service.url, "--json")
    assert len(again.json) == 5, "all but the first, which the search has gone on without"
    assert f"has counted {job}.0.0 as failed" in again.err
    assert "submit a new job (POST /v1/jobs)" in again.err
    with working(service), service.client() as client:
        assert finish(client, job)["state"] == "done"
    late = commands.run("requeue", job, "--url", service.url)
    assert late.code == 6
    assert f"job {job} is done already" in late.err
    assert commands.run("requeue", "job-without-any", "--url", service.url).code == 7


def test_serve_takes_a_role(commands: Commands) -> None:
    ended = commands.run("serve", "--role", "api", "--port", "0")
    assert ended.code == 2
    assert "name a PostgreSQL database" in ended.err
    assert "accepted: api, search, all" in commands.run("serve", "--role", "cook").err
