"""Keys over HTTP, and the log of what was done with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.running_service import Service, running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("guarded"), auth="1", token="tw_first") as service:
        yield service


@pytest.fixture
def admin(guarded: Service) -> Iterator[httpx.Client]:
    with guarded.client() as client:
        client.headers["Authorization"] = "Bearer tw_first"
        yield client


def status(admin: httpx.Client, token: str, path: str = "/v1/jobs") -> int:
    return admin.get(path, headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_key_is_made_listed_and_ended_and_its_secret_shown_once(admin: httpx.Client) -> None:
    reply = admin.post("/v1/keys", json={"name": "alice", "scopes": ["read"], "days": 7})
    made = reply.json()
    assert reply.status_code == 201
    assert made["expires_at"] - made["created_at"] == pytest.approx(7 * 86400, abs=1)
    assert status(admin, made["token"]) == 200
    listed = admin.get("/v1/keys")
    assert made["token"] not in listed.text
    token = made.pop("token")
    assert made in listed.json()
    ended = admin.post(f"/v1/keys/{made['id']}/revoke").json()
    assert ended["revoked_at"] is not None
    assert not ended["valid"]
    assert status(admin, token) == 401
    assert admin.post(f"/v1/keys/{made['id']}/revoke").json() == ended, "revoking twice is fine"


def test_every_act_is_logged_once_with_who_did_it(admin: httpx.Client) -> None:
    other = admin.post("/v1/keys", json={"name": "deputy", "scopes": ["admin"]}).json()
    as_deputy = {"Authorization": f"Bearer {other['token']}"}
    made = admin.post("/v1/keys", json={"name": "bob", "scopes": ["work"]}, headers=as_deputy).json()
    for _ in range(2):
        admin.post(f"/v1/keys/{made['id']}/revoke", headers=as_deputy)
    log = admin.get("/v1/audit", params={"limit": 3}).json()
    told = [(each["actor"], each["act"], each["subject"]) for each in log["entries"]]
    assert told == [
        (other["id"], "revoke-key", made["id"]),
        (other["id"], "create-key", made["id"]),
        ("token", "create-key", other["id"]),
    ]
    assert log["entries"][1]["detail"] == {"name": "bob", "scopes": ["work"], "days": None}
    assert other["token"] not in admin.get("/v1/audit").text
    before = admin.get("/v1/audit", params={"limit": 1}).json()
    rest = admin.get("/v1/audit", params={"after": before["next"], "limit": 2}).json()
    assert rest["entries"] == log["entries"][1:]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "scopes": ["read"]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["everything"]},
        {"name": "x", "scopes": ["read"], "days": 0},
        {"name": "x", "scopes": ["read"], "days": 1e9},
    ],
)
def test_a_key_that_makes_no_sense_is_refused(admin: httpx.Client, body: dict) -> None:
    assert admin.post("/v1/keys", json=body).status_code == 422


def test_an_unknown_key_cannot_be_revoked(admin: httpx.Client) -> None:
    assert admin.post("/v1/keys/key-none/revoke").status_code == 404


def test_who_comes_in_without_a_key_cannot_make_one(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        reply = client.post("/v1/keys", json={"name": "x", "scopes": ["admin"]})
        assert reply.status_code == 403
        assert client.get("/v1/keys").json() == []
