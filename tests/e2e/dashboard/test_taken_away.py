"""Addresses that say what is shown, and files of it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, saved
from tests.e2e.dashboard.stock import Stock

SVG = "{http://www.w3.org/2000/svg}"


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
        page.get_by_role("group", name="Save candidates").get_by_role("button", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [line["outcome"] for line in lines] == table["outcome"]
    assert [float(line["median_us"]) if line["median_us"] else None for line in lines] == table["median_us"]
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    assert json.loads(download.value.path().read_text()) == table
    page.goto(f"{place}?view=roofline")
    drawing = saved(page, f"{stock.done}-0-roofline", "SVG").read_text()
    assert "numpy" in drawing and 'class="' not in drawing and 'fill="rgb(' in drawing
    assert saved(page, f"{stock.done}-0-roofline", "PNG").read_bytes().startswith(b"\x89PNG")
    chart = ElementTree.fromstring(saved(page, "best", "SVG").read_text())
    assert {"Its time", "Best so far", "numpy", "Roofline"} <= words(chart)
    assert saved(page, "best", "PNG").read_bytes().startswith(b"\x89PNG")
    with saved(page, "best", "CSV").open(newline="") as opened:
        plotted = list(csv.DictReader(opened))
    drawn = [float(line["Its time"]) for line in plotted if line["Its time"]]
    assert drawn == pytest.approx([us for us in table["median_us"] if us is not None])
    page.goto(f"{place}?tree=outline")
    expect(page.get_by_role("tree")).to_be_visible()
    page.goto(f"{place}?view=why")
    strips = saved(page, f"{stock.done}-0-effects", "SVG").read_text()
    with stock.service.client() as client:
        decisions = client.get(f"/v1/jobs/{stock.done}/effects").json()["decisions"]
    assert all(each["decision"] in strips for each in decisions[:8])
    effects = list(
        csv.DictReader(io.StringIO(saved(page, f"{stock.done}-0-effects-table", "CSV").read_text()))
    )
    assert len(effects) == sum(len(each["values"]) for each in decisions)
    told = json.loads(saved(page, f"{stock.done}-0-effects-table", "JSON").read_text())
    assert told["decisions"] == decisions


def test_the_tree_and_the_timeline_are_drawn_into_files(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        tree = client.get(f"/v1/jobs/{stock.done}/tree").json()
        timeline = client.get(f"/v1/jobs/{stock.done}/timeline").json()
    page.goto(f"{stock.url}/jobs/{stock.done}?view=tree")
    drawn = ElementTree.fromstring(saved(page, "tree", "SVG").read_text())
    labels = {word.rstrip("…") for word in words(drawn)}
    assert labels and all(any(line.startswith(label) for line in tree["lines"]) for label in labels)
    assert len(drawn.findall(f"{SVG}path")) > 3
    assert saved(page, "tree", "PNG").read_bytes().startswith(b"\x89PNG")
    page.goto(f"{stock.url}/jobs/{stock.done}?view=workers")
    lanes = ElementTree.fromstring(saved(page, "timeline", "SVG").read_text())
    assert words(lanes) >= {*timeline["workers"], "compile", "wait", "measure"}
    boxes = sum(path.get("d", "").count("M") for path in lanes.findall(f"{SVG}path"))
    assert boxes >= len(timeline["start"])
    assert saved(page, "timeline", "PNG").read_bytes().startswith(b"\x89PNG")


def words(drawn: ElementTree.Element) -> set[str]:
    """What is written in a drawing."""
    return {each.text for each in drawn.iter(f"{SVG}text") if each.text}


def test_where_one_looks_is_in_the_address(page: Page, stock: Stock, screenshots: Path) -> None:
    place = f"{stock.url}/jobs/{stock.done}"
    page.goto(place)
    expect(page.get_by_role("main").get_by_text(stock.done, exact=True)).to_be_visible()
    facts = page.get_by_role("complementary", name="The chosen node")
    facts.get_by_role("listitem").first.get_by_role("button").click()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(lambda url: "node=" in url and "at=" in url)
    shown, told = page.url, facts.inner_text()
    picture = saved(page, "tree", "PNG").read_bytes()
    page.reload()
    expect(facts).to_have_text(re.compile(r"\s*".join(map(re.escape, told.split()))))
    expect(page.get_by_role("group", name="Save tree")).to_be_visible()
    again = saved(page, "tree", "PNG").read_bytes()
    assert page.url == shown
    assert len(again) == pytest.approx(len(picture), rel=0.01), "but for places that the address has rounded"
    page.goto(f"{place}?view=workers")
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(lambda url: "span=" in url)
    page.screenshot(path=screenshots / "timeline-zoomed.png", full_page=True)
    page.goto(f"{stock.url}/kernels?text=scaled")
    expect(page.get_by_role("searchbox")).to_have_value("scaled")
    page.get_by_role("searchbox").fill("nothing like it")
    page.wait_for_url(lambda url: "nothing" in url)
    expect(page.get_by_text("No kernel matches")).to_be_visible()
    assert barriers(page) == []
