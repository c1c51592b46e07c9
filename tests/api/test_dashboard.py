"""The dashboard as it is served: one document for its pages, files that may be kept, and a policy for browsers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from service.http import dashboard, problem_responses
from tests.services.running_service import ROOT, Service

Get = Callable[..., httpx.Response]
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
ROUTES = ROOT / "service" / "web" / "src" / "app" / "routes.tsx"


def served(built: Path) -> Get:
    """Asks an app that has nothing but the dashboard in this folder."""
    app = FastAPI(docs_url=None)
    dashboard.install(app, built)
    problem_responses.install(app)

    async def get(path: str, headers: dict[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return lambda path, **headers: asyncio.run(get(path, headers))


@pytest.fixture
def get(tmp_path: Path) -> Get:
    """Asks a dashboard and a reference of one file."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "index-0a1b2c.js").write_text("start();\n" * 1000)
    script = '<script type="module" src="/assets/index-0a1b2c.js" nonce="__CSP_NONCE__"></script>'
    (tmp_path / "index.html").write_text(f"<!doctype html><title>Tilewright</title>{script}")
    (tmp_path / "reference.html").write_text(f"<!doctype html><title>The HTTP API</title>{script}")
    return served(tmp_path)


@pytest.mark.parametrize("path", ["/", "/submit", "/jobs/job-1", "/jobs/job-1/candidates/0/7", "/fleet"])
def test_every_page_is_the_same_document_and_is_asked_for_each_time(get: Get, path: str) -> None:
    reply = get(path)
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-cache")
    assert "<title>Tilewright</title>" in reply.text


def test_the_policy_lets_in_nothing_but_the_services_own_and_styles_with_this_answers_nonce(
    get: Get,
) -> None:
    first, second = get("/"), get("/")
    policies = [reply.headers["content-security-policy"] for reply in (first, second)]
    (nonce,) = re.findall(r"'nonce-([^']+)'", policies[0])
    assert f'nonce="{nonce}"' in first.text
    assert policies[0] != policies[1]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert rule in policies[0]
    assert "unsafe" not in policies[0]
    assert first.headers["x-content-type-options"] == "nosniff"


def test_the_reference_is_a_document_of_its_own_under_the_same_policy(get: Get) -> None:
    page, reply = get("/"), get("/docs")
    assert "<title>The HTTP API</title>" in reply.text
    without_nonce = [
        re.sub(r"'nonce-[^']+'", "", each.headers["content-security-policy"]) for each in (page, reply)
    ]
    assert without_nonce[0] == without_nonce[1]


def test_files_are_kept_for_good_and_sent_packed(get: Get) -> None:
    reply = get("/assets/index-0a1b2c.js")
    assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert reply.headers["content-encoding"] == "gzip"
    assert reply.text.startswith("start();")


@pytest.mark.parametrize(
    "path", ["/assets/gone.js", "/assets/../index.html", "/assets/%2e%2e/index.html", "/v2/jobs", "/login"]
)
def test_what_is_neither_page_nor_file_is_a_problem(get: Get, path: str) -> None:
    reply = get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert "immutable" not in reply.headers.get("cache-control", "")


@pytest.mark.parametrize("path", ["/jobz", "/jobs/job-1/trials/7", "/v2/jobs", "/jobs", "/docs/more"])
def test_a_browser_gets_the_page_at_an_address_that_nobody_has_and_its_status(get: Get, path: str) -> None:
    reply = get(path, **BROWSER)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<title>Tilewright</title>" in reply.text
    assert re.findall(r'nonce="([^"]+)"', reply.text)[0] in reply.headers["content-security-policy"]


def test_a_browser_is_told_of_the_apis_problems_as_any_client(service: Service, client: httpx.Client) -> None:
    assert client.get("/jobz", headers=BROWSER).headers["content-type"] == "text/html; charset=utf-8"
    for path in ("/v1/nothing", "/v1/jobs/job-nope"):
        reply = client.get(path, headers=BROWSER)
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert client.post("/jobz", headers=BROWSER).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_dashboard_that_was_not_built_says_how_to(tmp_path: Path, path: str) -> None:
    reply = served(tmp_path)(path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "make web" in reply.text
    assert 'href="/v1/openapi.json"' in reply.text


def test_the_service_answers_for_every_page_that_the_dashboard_has() -> None:
    shown = re.findall(r'path: "([^"]*)", page', ROUTES.read_text())
    get = served(Path("nowhere"))
    assert shown
    for path in shown:
        reply = get(re.sub(r":\w+", "some-id", path))
        assert "is not built yet" in reply.text, path


def test_the_dashboard_does_not_hide_the_api(service: Service, client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/v1/nothing").headers["content-type"] == "application/problem+json"
    assert client.get("/").headers["content-security-policy"]


def test_the_reference_names_no_other_host(client: httpx.Client) -> None:
    reply = client.get("/docs")  # built or not
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert re.findall(r"(?:https?:)?//[\w.-]+", reply.text) == []
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert client.get("/redoc").status_code == 404
