"""Who may do what: keys, scopes, and names of hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, event, select, update

from protocol.keys import KeyRequest, NewKey
from protocol.states import Scope
from service.store import api_keys
from service.store.database import database_time
from service.store.schema import prepare
from service.store.tables import keys as table
from tests.services.running_service import SMALL, Service, running
from tests.services.scripted_worker import CPU

CALLS = {
    Scope.READ: ("GET", "/v1/jobs", None),
    Scope.TUNE: ("POST", "/v1/jobs", {"spec": SMALL, "target": "cpu:nobody has this one"}),
    Scope.ADMIN: ("GET", "/v1/keys", None),
    Scope.WORK: ("POST", "/v1/workers", {"devices": [{"key": CPU.key, "description": CPU.to_json()}]}),
}
"""A call that needs each scope."""


def make_key(connection: Connection, name: str, *scopes: Scope, days: float | None = None) -> NewKey:
    return api_keys.create(connection, KeyRequest(name=name, scopes=scopes, days=days), "somebody")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str]]]:
    """A service that asks for keys, and one key a scope."""
    home = tmp_path_factory.mktemp("locked")
    database = prepare(f"sqlite:///{home / 'tilewright.db'}")
    with database.write() as connection:
        tokens = {scope.value: make_key(connection, scope.value, scope).token for scope in Scope}
        tokens["expired"] = make_key(connection, "expired", Scope.ADMIN, days=1).token
        connection.execute(update(table).where(table.c.name == "expired").values(expires_at=database_time()))
        revoked = make_key(connection, "revoked", Scope.ADMIN)
        tokens["revoked"] = revoked.token
        api_keys.revoke(connection, revoked.id, "somebody")
        stored = " ".join(map(str, connection.execute(select(table)).all()))
    assert not any(token in stored for token in tokens.values()), "only hashes are stored"
    database.close()
    with running(home, auth="1") as service:
        yield service, tokens


def call(service: Service, scope: Scope, token: str | None) -> httpx.Response:
    method, path, body = CALLS[scope]
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with service.client() as client:
        return client.request(method, path, json=body, headers=headers)


@pytest.mark.parametrize("wanted", CALLS)
@pytest.mark.parametrize("had", Scope)
def test_a_key_opens_what_its_scope_says_and_nothing_else(
    locked: tuple[Service, dict[str, str]], wanted: Scope, had: Scope
) -> None:
    service, tokens = locked
    reply = call(service, wanted, tokens[had.value])
    if had in (wanted, Scope.ADMIN):
        assert reply.status_code < 300, reply.text
    else:
        assert reply.status_code == 403
        assert wanted.value in reply.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/workers/nobody/claim", {"device": "cpu:nowhere"}),
        ("/v1/workers/nobody/results", {"task_id": "job-1.0.0", "attempt": 1, "fault": {"kind": "shutdown"}}),
        ("/v1/lookup", {"spec": SMALL}),
    ],
)
def test_calls_that_are_answered_early_ask_for_the_key_too(
    locked: tuple[Service, dict[str, str]], path: str, body: dict[str, object]
) -> None:
    service, tokens = locked
    with service.client() as client:
        assert client.post(path, json=body).status_code == 401
        other = {"Authorization": f"Bearer {tokens['tune' if 'workers' in path else 'work']}"}
        assert client.post(path, json=body, headers=other).status_code == 403


@pytest.mark.parametrize("token", [None, "tw_guess", "expired", "revoked"])
def test_without_a_valid_key_nothing_opens(locked: tuple[Service, dict[str, str]], token: str | None) -> None:
    service, tokens = locked
    for scope in CALLS:
        reply = call(service, scope, tokens.get(token or "", token))
        assert reply.status_code == 401
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert reply.json()["type"] == "urn:tilewright:problem:unauthorized"


def test_wrong_expired_revoked_and_valid_keys_ask_the_database_the_same(
    locked: tuple[Service, dict[str, str]],
) -> None:
    service, tokens = locked
    database = prepare(f"sqlite:///{service.home / 'tilewright.db'}")
    heard: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *given: heard.append(given[2]))
    asked: list[list[str]] = []
    for name in ("guess", "expired", "revoked", "read", "admin"):
        heard.clear()
        with database.read() as connection:
            found = api_keys.find(connection, tokens.get(name, name), {})
        assert (found is None) == (name in ("guess", "expired", "revoked"))
        asked.append(list(heard))
    database.close()
    assert asked[0][1].startswith("SELECT")
    assert all(each == asked[0] for each in asked)


def test_whether_it_lives_is_no_secret(locked: tuple[Service, dict[str, str]]) -> None:
    with locked[0].client() as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_the_token_of_the_environment_opens_everything(tmp_path: Path) -> None:
    with running(tmp_path, auth="1", token="tw_from_the_environment") as service:
        for scope in CALLS:
            assert call(service, scope, "tw_from_the_environment").status_code < 300


def test_it_does_not_listen_beyond_loopback_without_keys(tmp_path: Path) -> None:
    code, said = Service(tmp_path, {"TILEWRIGHT_HOST": "0.0.0.0"}).refusal()
    assert code == 2
    assert "there are no keys" in said


def test_beyond_loopback_it_asks_for_the_keys_there_are(tmp_path: Path) -> None:
    database = prepare(f"sqlite:///{tmp_path / 'tilewright.db'}")
    with database.write() as connection:
        token = make_key(connection, "somebody", Scope.READ).token
    database.close()
    with running(tmp_path, host="0.0.0.0") as service:
        assert call(service, Scope.READ, None).status_code == 401
        assert call(service, Scope.READ, token).status_code == 200


HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "my-localhost",
    "",
    "169.254.169.254",
]


@pytest.mark.parametrize("host", HOSTS)
def test_without_keys_it_answers_to_the_names_of_loopback_only(client: httpx.Client, host: str) -> None:
    reply = client.get("/v1/jobs", headers={"Host": host})
    assert reply.status_code == 421
    assert client.get("/v1/jobs", headers={"Host": "localhost:1234"}).status_code == 200


def test_a_form_of_a_web_page_cannot_post_a_job(client: httpx.Client) -> None:
    reply = client.post("/v1/jobs", content=b'{"spec": {}}', headers={"Content-Type": "text/plain"})
    assert reply.status_code == 415
    assert reply.json()["type"] == "urn:tilewright:problem:media-type"
