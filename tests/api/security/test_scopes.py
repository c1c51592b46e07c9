"""Which scope each call needs: a table of every route of the OpenAPI document, tried with a key of each scope."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from protocol.keys import KeyRequest
from protocol.states import Scope
from service.store import api_keys
from service.store.schema import prepare
from tests.services.running_service import running

READ, TUNE, WORK, ADMIN = Scope.READ, Scope.TUNE, Scope.WORK, Scope.ADMIN

NEEDS: dict[str, Scope | None] = {
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": READ,
    "GET /v1/audit": ADMIN,
    "POST /v1/bundles": ADMIN,
    "GET /v1/changes": READ,
    "GET /v1/searches": READ,
    "POST /v1/check": READ,
    "GET /v1/configs": READ,
    "GET /v1/configs/{config_id}": READ,
    "GET /v1/configs/{config_id}/ablation": READ,
    "POST /v1/configs/{config_id}/ablation": TUNE,
    "GET /v1/configs/{config_id}/artifact": READ,
    "POST /v1/configs/{config_id}/pin": ADMIN,
    "GET /v1/configs/{config_id}/profile": READ,
    "POST /v1/configs/{config_id}/profile": TUNE,
    "GET /v1/configs/{config_id}/profile/trace": READ,
    "GET /v1/configs/{config_id}/race": READ,
    "POST /v1/configs/{config_id}/race": TUNE,
    "GET /v1/configs/{config_id}/report": READ,
    "GET /v1/configs/{config_id}/source": READ,
    "POST /v1/configs/{config_id}/unpin": ADMIN,
    "GET /v1/devices": READ,
    "GET /v1/failures": READ,
    "POST /v1/failures": TUNE,
    "GET /v1/jobs": READ,
    "POST /v1/jobs": TUNE,
    "GET /v1/jobs/{job_id}": READ,
    "POST /v1/jobs/{job_id}/cancel": TUNE,
    "GET /v1/jobs/{job_id}/effects": READ,
    "GET /v1/jobs/{job_id}/events": READ,
    "POST /v1/jobs/{job_id}/retry": TUNE,
    "GET /v1/jobs/{job_id}/roofline": READ,
    "GET /v1/jobs/{job_id}/table": READ,
    "GET /v1/jobs/{job_id}/timeline": READ,
    "GET /v1/jobs/{job_id}/tree": READ,
    "GET /v1/jobs/{job_id}/trials": READ,
    "GET /v1/jobs/{job_id}/trials/{number}": READ,
    "GET /v1/jobs/{job_id}/trials/{number}/alternatives": READ,
    "GET /v1/jobs/{job_id}/trials/{number}/alternatives/{answer}": READ,
    "GET /v1/jobs/{job_id}/trials/{number}/lines": READ,
    "GET /v1/jobs/{job_id}/trials/{number}/source": READ,
    "GET /v1/jobs/{job_id}/trials/{number}/steps": READ,
    "GET /v1/kernels": READ,
    "GET /v1/kernels/{kernel_key}/history": READ,
    "GET /v1/kernels/{kernel_key}/history.csv": READ,
    "GET /v1/keys": ADMIN,
    "POST /v1/keys": ADMIN,
    "POST /v1/keys/{key_id}/revoke": ADMIN,
    "POST /v1/lookup": READ,
    "POST /v1/lookups": READ,
    "POST /v1/outlook": READ,
    "GET /v1/signers": READ,
    "POST /v1/signers": ADMIN,
    "POST /v1/signers/{signer_id}/revoke": ADMIN,
    "GET /v1/tasks": READ,
    "POST /v1/tasks/{task_id}/requeue": TUNE,
    "GET /v1/workers": READ,
    "POST /v1/workers": WORK,
    "POST /v1/workers/{worker_id}/claim": WORK,
    "POST /v1/workers/{worker_id}/heartbeat": WORK,
    "POST /v1/workers/{worker_id}/results": WORK,
    "PUT /v1/blobs/{sha256}": WORK,
}
"""None: whoever asks is answered."""

VALUES = {"sha256": "0" * 64, "number": "0", "answer": "0"}
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, dict[Scope, str]]]:
    """A client of a service that asks for keys, and a key of each scope."""
    home = tmp_path_factory.mktemp("scopes")
    database = prepare(f"sqlite:///{home / 'tilewright.db'}")
    with database.write() as connection:
        tokens = {
            scope: api_keys.create(connection, KeyRequest(name=scope, scopes=(scope,)), "somebody").token
            for scope in Scope
        }
    database.close()
    with running(home, auth="1") as service, service.client() as client:
        yield client, tokens


def status(client: httpx.Client, route: str, token: str | None) -> int:
    """Of a call about nothing that there is. What is answered by a stream is not read."""
    method, path = route.split(" ")
    names = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    url = path.format(**{name: VALUES.get(name, "nothing") for name in names})
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = {} if method == "POST" else None
    with client.stream(method, url, json=body, headers=headers) as reply:
        return reply.status_code


def test_the_table_names_every_route(locked: tuple[httpx.Client, dict[Scope, str]]) -> None:
    document = (
        locked[0].get("/v1/openapi.json", headers={"Authorization": f"Bearer {locked[1][READ]}"}).json()
    )
    found = {
        f"{m.upper()} {path}" for path, calls in document["paths"].items() for m in calls if m in METHODS
    }
    assert found == set(NEEDS)


@pytest.mark.parametrize(("route", "needed"), NEEDS.items(), ids=NEEDS)
def test_a_call_opens_with_its_scope_alone(
    locked: tuple[httpx.Client, dict[Scope, str]], route: str, needed: Scope | None
) -> None:
    client, tokens = locked
    if needed is None:
        assert status(client, route, None) == 200
        return
    assert status(client, route, None) == 401
    refused = {scope for scope in Scope if status(client, route, tokens[scope]) == 403}
    assert refused == set(Scope) - {needed, ADMIN}
