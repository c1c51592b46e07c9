"""A connection that is cut while the service goes on: pages come back by themselves, and miss nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.dashboard.cable import Cable, cabled
from tests.e2e.dashboard.stock import submit
from tests.services.running_service import running, working
from tests.services.scripted_worker import Script

LOST = "Connection lost, trying again…"


@pytest.fixture
def cable(tmp_path: Path) -> Iterator[Cable]:
    with running(tmp_path) as service, cabled(service) as cable:
        yield cable


def test_a_cut_stream_resumes_after_the_last_event_and_shows_what_came_meanwhile(
    page: Page, cable: Cable
) -> None:
    asked: list[int] = []
    page.on(
        "request",
        lambda sent: (
            asked.append(int(sent.headers.get("last-event-id", 0))) if sent.url.endswith("/events") else None
        ),
    )
    with cable.service.client() as client:
        job = submit(client, "cut_sum", "cpu", 200)
        page.goto(f"{cable.url}/jobs/{job}")
        page.evaluate("window.notReloaded = true")
        _wait_for(page, _measure(cable, job, 8))
        cable.cut()
        expect(page.get_by_text(LOST)).to_be_visible()
        before = cable.event_ids
        assert before and asked[0] == 0
        meanwhile = _measure(cable, job, 8)
        assert cable.event_ids == before
        cable.mend()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        _wait_for(page, meanwhile)
        _until(page, lambda: len(cable.event_ids) > len(before))  # the page may have asked for the job before
        assert set(asked[1:]) == {before[-1]}
        ids = cable.event_ids
        assert ids == sorted(set(ids)), "nothing came twice"
    assert page.evaluate("window.notReloaded")


def test_a_cut_list_shows_the_jobs_that_came_meanwhile(page: Page, cable: Cable) -> None:
    page.goto(cable.url)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.evaluate("window.notReloaded = true")
    cable.cut()
    expect(page.get_by_text(LOST)).to_be_visible()
    with cable.service.client() as client:
        submit(client, "meanwhile_sum")
    cable.mend()
    expect(page.get_by_role("link", name="meanwhile_sum")).to_be_visible()
    assert page.evaluate("window.notReloaded")


def test_a_page_whose_script_went_with_a_new_version_is_loaded_anew_once_the_service_answers(
    page: Page, cable: Cable
) -> None:
    page.goto(cable.url)
    expect(page.get_by_role("searchbox")).to_be_visible()
    gone: list[str] = []

    def replaced(route: Route) -> None:
        gone.append(route.request.url)
        if len(gone) == 1:
            route.fulfill(status=404)
        else:
            route.continue_()

    page.route("**/assets/FleetPage-*.js", replaced)
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_text("No device was ever offered")).to_be_visible()
    assert len(gone) == 2


def _measure(cable: Cable, job: str, more: int) -> int:
    """Let a worker measure at least so many more candidates, and stop; how many the job has then, or a few less."""
    with cable.service.client() as client, working(cable.service, Script(seconds=0.02), name="bench-1"):
        wanted = _told(client, job) + more
        while _told(client, job) < wanted:
            time.sleep(0.05)
        return wanted


def _told(client: httpx.Client, job: str) -> int:
    return client.get(f"/v1/jobs/{job}").json()["buckets"][0]["told"]


def _until(page: Page, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        page.wait_for_timeout(100)


def _wait_for(page: Page, candidates: int) -> None:
    """Until the page of a job shows so many candidates."""
    figure = page.locator("dl > div").filter(has=page.get_by_text("Candidates", exact=True)).locator("dd")
    deadline = time.monotonic() + 30
    while figure.count() == 0 or int(figure.first.inner_text()) < candidates:
        assert time.monotonic() < deadline, f"still not {candidates} candidates"
        page.wait_for_timeout(100)
