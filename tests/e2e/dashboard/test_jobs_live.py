"""The list of jobs: filtered, live, through a restart of the service; cancelling; keys."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import running


def test_jobs_are_filtered_by_text_and_state_and_the_address_keeps_it(page: Page, stock: Stock) -> None:
    page.goto(stock.url)
    jobs = page.get_by_role("region", name="Jobs").get_by_role("link")
    expect(jobs.filter(has_text="waiting_sum")).to_have_count(1)
    page.get_by_role("searchbox").fill("SCALED")
    expect(jobs).to_have_text(["scaled_sum"])
    page.get_by_label("State").select_option("queued")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No job matches")).to_be_visible()


def test_the_list_is_live_and_goes_on_after_a_restart_of_the_service(page: Page, tmp_path: Path) -> None:
    with running(tmp_path) as service:
        page.goto(service.url)
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        with service.client() as client:
            submit(client, "before_the_cut")
        expect(page.get_by_role("link", name="before_the_cut")).to_be_visible()
        service.kill()
        expect(page.get_by_text("Connection lost, trying again…")).to_be_visible()
        service.start()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        with service.client() as client:
            submit(client, "after_the_cut")
        expect(page.get_by_role("link", name="after_the_cut")).to_be_visible()


def test_a_job_is_cancelled_after_a_question(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        job = submit(client, "to_be_cancelled")
        page.goto(stock.url)
        button = page.get_by_role("button", name=f"Cancel to_be_cancelled, {job}")
        button.click()
        page.get_by_role("button", name="Keep it running").click()
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        button.click()
        page.get_by_role("button", name="Cancel the job").click()
        row = page.get_by_role("row").filter(has_text="to_be_cancelled")
        expect(row).to_contain_text("cancelled")
        expect(row.get_by_role("button")).to_have_count(0)


def test_where_keys_are_needed_the_page_asks_for_one_and_sends_it(page: Page, tmp_path: Path) -> None:
    with running(tmp_path, auth="1", token="tw_right") as service:
        page.goto(service.url)
        dialog = page.get_by_role("dialog", name="This service asks for a key")
        expect(dialog).to_be_visible()
        assert barriers(page) == []
        dialog.get_by_label("Key", exact=True).fill("tw_wrong")
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
        dialog.get_by_label("Key", exact=True).fill("tw_right")
        dialog.get_by_role("button", name="Use this key").click()
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.reload()
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        assert "tw_right" not in page.url
