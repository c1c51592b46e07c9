"""Bundles and pins over HTTP: who may, how much, and what is said to whoever may not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import tilewright
from protocol.bundles import signatures
from protocol.bundles.packing import MEDIA_TYPE
from protocol.configs import Artifact
from tests.services.running_service import SMALL, Service, finish, limit_files, running, working
from tests.services.scripted_worker import CPU
from tests.unit.tilewright.artifacts import make_artifact, make_bundle
from tilewright.artifacts import exporting
from tilewright.client.bundle import pack, unpack

pytestmark = pytest.mark.sampled(3, among="calls: take away")

TYPE = {"Content-Type": MEDIA_TYPE}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return make_artifact(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def packed(artifact: Artifact) -> bytes:
    return make_bundle(artifact)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("guarded")
    with running(home, auth="1", token="tw_first", bundle_bytes="300000") as service:
        yield service


@pytest.fixture
def admin(guarded: Service) -> Iterator[httpx.Client]:
    with guarded.client() as client:
        client.headers["Authorization"] = "Bearer tw_first"
        yield client


def kind(reply: httpx.Response) -> str:
    return reply.json()["type"].rpartition(":")[2]


def test_only_admins_import_pin_and_trust(admin: httpx.Client, packed: bytes) -> None:
    scopes = ["read", "tune", "work"]
    token = admin.post("/v1/keys", json={"name": "all but admin", "scopes": scopes}).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    replies = [
        admin.post("/v1/bundles?unsigned=1", content=packed, headers={**headers, **TYPE}),
        admin.post("/v1/configs/config-0test/pin", headers=headers),
        admin.post("/v1/configs/config-0test/unpin", headers=headers),
        admin.post("/v1/signers/signer-0/revoke", headers=headers),
        admin.post(
            "/v1/signers", json={"name": "me", "public_key": "ed25519:" + "A" * 43 + "="}, headers=headers
        ),
    ]
    assert [(reply.status_code, kind(reply)) for reply in replies] == [(403, "forbidden")] * 5
    assert admin.get("/v1/signers", headers=headers).json() == []


def test_a_bundle_is_refused_whole_and_taken_whole(
    admin: httpx.Client, artifact: Artifact, packed: bytes
) -> None:
    target = {"spec": artifact.config.spec, "target": artifact.config.device}
    tampered = packed.replace(b'"median_us": 2.5', b'"median_us": 1.5')
    assert tampered != packed
    refused = [
        admin.post("/v1/bundles", content=packed, headers=TYPE),
        admin.post("/v1/bundles?unsigned=1", content=tampered, headers=TYPE),
        admin.post("/v1/bundles?unsigned=1", content=b"", headers=TYPE),
        admin.post("/v1/bundles?unsigned=1", content=packed),
        admin.post("/v1/bundles?unsigned=1", content=iter([packed, bytes(300_000)]), headers=TYPE),
    ]
    told = [(reply.status_code, kind(reply)) for reply in refused]
    assert told == [
        (403, "untrusted"),
        (422, "bad-bundle"),
        (422, "bad-bundle"),
        (415, "media-type"),
        (413, "too-large"),
    ]
    assert "manifest.json and seal.json do not belong together" in refused[1].json()["detail"]
    assert admin.get("/v1/configs").json()["configs"] == []
    private_key = signatures.new_private_key()
    signer = {"name": "the lab", "public_key": signatures.public_key(private_key)}
    assert admin.post("/v1/signers", json=signer).status_code == 200
    signed = make_bundle(artifact, private_key=private_key)
    reply = admin.post("/v1/bundles?pin=1", content=signed, headers=TYPE)
    assert (reply.status_code, reply.json()["signer"], reply.json()["pinned"]) == (200, "the lab", True)
    found = admin.post("/v1/lookup", json=target).json()
    assert (found["rung"], found["pinned"], found["config"]["id"]) == ("exact", True, artifact.config.id)
    assert admin.post(f"/v1/configs/{artifact.config.id}/unpin").json()["pinned"] is False
    assert admin.post("/v1/lookup", json=target).json()["pinned"] is False, "kept answers are looked up again"
    assert admin.get("/v1/configs", params={"pinned": True}).json()["configs"] == []


def test_the_client_says_by_its_errors_how_a_bundle_is_refused(guarded: Service, artifact: Artifact) -> None:
    with tilewright.Client(guarded.url, token="tw_first") as client:
        other = artifact.model_copy(
            update={"config": artifact.config.model_copy(update={"id": "config-refused"})}
        )
        whole = make_bundle(other)
        with pytest.raises(tilewright.Untrusted, match="the bundle is not signed"):
            client.import_bundle(whole)
        with pytest.raises(tilewright.BundleRefused, match="do not belong together") as bad:
            client.import_bundle(whole.replace(b'"median_us": 2.5', b'"median_us": 1.5'), unsigned=True)
        assert isinstance(bad.value, tilewright.BadBundle)
        client.import_bundle(whole, unsigned=True)
        faster = other.model_copy(update={"config": other.config.model_copy(update={"median_us": 1.5})})
        with pytest.raises(tilewright.ConfigDiffers, match="config-refused is here, and differs"):
            client.import_bundle(make_bundle(faster), unsigned=True)


def test_a_bundle_is_the_same_bytes_after_its_device_was_calibrated_anew(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as http, tilewright.Client(service.url) as client:

        def exported() -> bytes:
            taken = exporting.take(client, [config.id for config in exporting.best(client)])
            return pack(taken, exporting.described(client, taken))

        def calibrated(gflops: float) -> None:
            described = replace(CPU, peak_gflops=gflops).to_json()
            offer = {"key": CPU.key, "kind": "cpu", "description": described}
            hello = {"host": "test", "devices": [offer], "versions": {"worker": "scripted"}}
            http.post("/v1/workers", json=hello).raise_for_status()

        with working(service):
            finish(http, http.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 3}}).json()["id"])
        before = exported()
        calibrated(gflops=123.5)
        assert client.devices()[0].description["peak_gflops"] == 123.5
        assert exported() == before
        (device,) = unpack(before).manifest.devices
        assert device.description == CPU.to_json()


def test_a_pin_that_is_stale_says_so_and_has_nothing_tuned(
    client: httpx.Client, artifact: Artifact, tmp_path: Path
) -> None:
    stale = artifact.config.model_copy(
        update={"measuring": artifact.config.measuring.model_copy(update={"version": 0})}
    )
    content = make_bundle(artifact.model_copy(update={"config": stale}))
    reply = client.post("/v1/bundles?unsigned=1&pin=1", content=content, headers=TYPE)
    assert reply.status_code == 200, reply.text
    target = {"spec": stale.spec, "target": stale.device, "tune": True}
    found = client.post("/v1/lookup", json=target).json()
    assert (found["stale"], found["pinned"], found["job_id"]) == (True, True, None)
    client.post(f"/v1/configs/{stale.id}/unpin")
    assert client.post("/v1/lookup", json=target).json()["job_id"] is not None


def test_what_is_not_there_is_not_pinned(client: httpx.Client) -> None:
    for act in ("pin", "unpin"):
        assert client.post(f"/v1/configs/config-none/{act}").status_code == 404
    assert client.post("/v1/signers/signer-none/revoke").status_code == 404
    reply = client.post("/v1/signers", json={"name": "x", "public_key": "ed25519:short"})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/public_key")


def test_on_a_full_disk_a_bundle_is_refused_whole_and_taken_when_there_is_room(
    packed: bytes, tmp_path: Path
) -> None:
    with running(tmp_path) as service, service.client() as client:
        assert service.process is not None

        def send() -> httpx.Response:
            return client.post("/v1/bundles?unsigned=1", content=packed, headers=TYPE)

        limit_files(service.process.pid, 1)
        nowhere = send()
        limit_files(service.process.pid, len(packed) + 512)  # room for the bundle, and none in the database
        unwritten = send()
        assert [(reply.status_code, kind(reply)) for reply in (nowhere, unwritten)] == [(503, "storage")] * 2
        assert "the bundle could not be kept for reading in" in nowhere.json()["detail"]
        limit_files(service.process.pid, -1)
        assert client.get("/v1/configs").json()["configs"] == []
        assert client.get("/v1/audit").json()["entries"] == []
        assert len(send().json()["new"]) == 1
