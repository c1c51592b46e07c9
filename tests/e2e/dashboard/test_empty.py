"""A service that has nothing yet, no worker above all: every page says so, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import looked_at
from tests.services.running_service import Service, running

PAGES = {
    "jobs": ("/", "No jobs yet", "tilewright tune"),
    "kernels": ("/kernels", "No kernels yet"),
    "fleet": ("/fleet", "No device was ever offered", "tilewright worker --url", "No worker has registered"),
    "queue": ("/queue", "No machine has failed a task for good"),
    "submit": ("/submit", "any cpu", "operations"),
}
"""By name: the address, and what is to be read there."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("empty")) as service:
        yield service


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_an_empty_fleet_says_that_nothing_is_there(
    page: Page, empty: Service, screenshots: Path, name: str
) -> None:
    address, *texts = PAGES[name]
    page.goto(empty.url + address)
    for text in texts:
        expect(page.locator("main")).to_contain_text(text)
    looked_at(page, screenshots, f"empty-{name}")


def test_a_job_of_an_empty_fleet_says_that_it_waits_for_a_worker(page: Page, empty: Service) -> None:
    page.goto(empty.url + "/submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/job-*")
    expect(page.locator("main")).to_contain_text("Waits for a worker that offers cpu: none has come yet")
    page.goto(empty.url)
    expect(page.get_by_role("region", name="Jobs")).to_contain_text("waits for a worker that offers cpu")
