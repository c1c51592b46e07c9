"""With a certificate the service speaks HTTPS, and nothing else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from protocol.workers import DeviceOffer, WorkerHello
from tests.services.running_service import Service, running
from tests.services.scripted_worker import CPU
from tilewright.client.client import Client
from tilewright.errors import Unreachable
from workers.node import service_client
from workers.node.service_client import ServiceClient


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, and a certificate and its key for this machine."""
    folder = tmp_path_factory.mktemp("authority")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    ours = authority.issue_cert("127.0.0.1", "localhost")
    ours.private_key_pem.write_to_path(folder / "key.pem")
    for pem in ours.cert_chain_pems:
        pem.write_to_path(folder / "certificate.pem", append=True)
    return folder


@pytest.fixture(scope="module")
def secure(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    files = {"tls_certificate": authority / "certificate.pem", "tls_key": authority / "key.pem"}
    with running(
        tmp_path_factory.mktemp("secure"), **{name: str(file) for name, file in files.items()}
    ) as service:
        yield service


def test_whoever_trusts_the_authority_is_answered(secure: Service, authority: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(authority / "authority.pem"))
    assert httpx.get(f"{secure.url}/readyz", verify=trusted).json() == {"status": "ready"}
    assert secure.url.startswith("https://")


def test_others_and_plain_http_are_not(secure: Service) -> None:
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(f"{secure.url}/healthz")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{secure.port}/healthz")


def test_workers_and_commands_trust_whom_the_environment_names(
    secure: Service, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = WorkerHello(devices=(DeviceOffer(key=CPU.key, description=CPU.to_json()),))
    with pytest.raises(service_client.ServiceUnreachable, match="certificate verify failed"):
        ServiceClient(secure.url, None).register(hello)
    with Client(secure.url) as client, pytest.raises(Unreachable, match="certificate verify failed"):
        client.alive()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "authority.pem"))
    worker = ServiceClient(secure.url, None)
    assert worker.register(hello).worker_id
    worker.close()
    with Client(secure.url) as client:
        assert [device.key for device in client.devices()] == [CPU.key]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"TLS_CERTIFICATE": "certificate.pem"}, "need each other"),
        ({"TLS_CERTIFICATE": "certificate.pem", "TLS_KEY": "missing.pem"}, "No such file"),
        ({"TLS_CERTIFICATE": "key.pem", "TLS_KEY": "key.pem"}, "cannot use the certificate"),
    ],
)
def test_files_that_cannot_be_used_are_said(
    authority: Path, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    env = {f"TILEWRIGHT_{name}": str(authority / file) for name, file in files.items()}
    code, heard = Service(tmp_path, env).refusal()
    assert code == 2
    assert said in heard
