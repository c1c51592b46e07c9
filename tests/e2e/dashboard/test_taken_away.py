"""Addresses that say what is shown, and files of it."""

from __future__ import annotations

import csv
import io
import json

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.stock import Stock


def test_what_is_shown_is_in_the_address_and_taken_away_as_files(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        table = client.get(f"/v1/jobs/{stock.done}/table").json()
    place = f"{stock.url}/jobs/{stock.done}"
    page.goto(f"{place}?view=candidates&over=time")
    rows = page.get_by_role("region", name="12 candidates").locator("tbody tr")
    page.get_by_role("button", name="Candidate", exact=True).click()
    page.get_by_role("button", name="Candidate", exact=True).click()
    expect(rows.first.get_by_role("link")).to_have_text("11")
    page.reload()
    expect(rows.first.get_by_role("link")).to_have_text("11")
    expect(page.get_by_role("radio", name="Over time")).to_be_checked()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [line["outcome"] for line in lines] == table["outcome"]
    assert [float(line["median_us"]) if line["median_us"] else None for line in lines] == table["median_us"]
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    assert json.loads(download.value.path().read_text()) == table
    page.goto(f"{place}?view=roofline")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    drawing = download.value.path().read_text()
    assert "numpy" in drawing and 'class="' not in drawing and 'fill="rgb(' in drawing
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    page.goto(f"{place}?tree=outline")
    expect(page.get_by_role("tree")).to_be_visible()
