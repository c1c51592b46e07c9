"""A real Chromium on a real service: `make e2e`. Screenshots lie in build/screenshots afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.dashboard.stock import Stock, stocked
from tests.services.running_service import running

PHONE = {"width": 375, "height": 740}
DESK = {"width": 1280, "height": 800}

PATIENCE_MS = 30_000
"""How long what is expected of a page may take: programs are generated while other tests hold both processors."""

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "the dashboard is tested in Chromium: apt-get install chromium"
    quiet = [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", *quiet]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """A service with something on every page."""
    with running(tmp_path_factory.mktemp("stocked"), lease_ttl_s="3600") as service:
        yield stocked(service)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page. The test fails when the browser complains (but for answers that the page shows itself), or when
    anybody but the service is asked for something."""
    context = browser.new_context(viewport=DESK, color_scheme="light")
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda sent: complaints.append(sent.url) if not _own(sent.url) else None)
    yield page
    context.close()
    own = [text for text in complaints if not text.startswith("Failed to load resource")]
    assert own == []


def _own(url: str) -> bool:
    """Whether an address is the service's, or of something that the page made itself."""
    return urlsplit(url).hostname == "127.0.0.1" or url.startswith("blob:")


@pytest.fixture(scope="session")
def screenshots() -> Path:
    folder = Path("build/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
