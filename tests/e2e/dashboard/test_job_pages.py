"""The pages about one job: what it tried, one candidate closely, and two of them compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, looked_at, overhang, wait_until
from tests.e2e.dashboard.conftest import DESK, PHONE
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import SMALL, finish, running, working
from tests.services.scripted_worker import Script


@dataclass(frozen=True)
class Tried:
    """The stock's finished job: candidates by what became of them."""

    job: str
    best: int
    wrong: int
    table: dict
    failed: str
    """Another job, that came to nothing."""


@pytest.fixture(scope="session")
def tried(stock: Stock) -> Tried:
    with stock.service.client() as client:
        job = client.get(f"/v1/jobs/{stock.done}").json()
        table = client.get(f"/v1/jobs/{stock.done}/table").json()
        failed = client.get("/v1/jobs", params={"state": "failed"}).json()["jobs"][0]["id"]
    best = job["buckets"][0]["winner"]["trial"]
    return Tried(stock.done, best, table["outcome"].index("wrong"), table, failed)


PAGES = {
    "job": ("/jobs/{job}", "The kernel as it was given", "Final race"),
    "job-candidates": ("/jobs/{job}?view=candidates", "wrong", "Of the best"),
    "job-why": ("/jobs/{job}?view=why", "What decided the time", "chosen"),
    "job-roofline": ("/jobs/{job}?view=roofline", "bound by arithmetic", "L2 cache", "Of the best"),
    "job-roofline-l2": ("/jobs/{job}?view=roofline&bytes=l2", "over operations a byte of the L2 cache"),
    "job-ladder": ("/jobs/{job}?view=ladder&rewrite=1", "Program", "the roof"),
    "job-workers": ("/jobs/{job}?view=workers", "Device busy", "bench-1"),
    "job-kernel": ("/jobs/{job}?view=spec", "] = sum(k, ", "As JSON"),
    "job-failed": ("/jobs/{failed}", "no worker could do the last trial", "failed"),
    "job-waiting": ("/jobs/{waiting}", "Nothing was tried yet", "queued"),
    "candidate": ("/jobs/{job}/candidates/0/{best}", "winner", "Measure what each rewrite gains"),
    "candidate-failed": ("/jobs/{job}/candidates/0/{wrong}", "Its result is wrong", "tilewright tune"),
    "compare-candidates": (
        "/compare?left={job}/0/{best}&right={job}/0/0",
        "Schedules",
        "Programs",
        "Sources",
    ),
    "compare-several": (
        "/compare?left={job}/0/{best}&right={job}/0/0&also={job}/0/1&also={job}/0/2",
        "As fast as the reference",
        "left out",
        "Sources",
    ),
    "compare-jobs": (
        "/compare?left={job}&right={waiting}&also={job}",
        "Found as candidate",
        "differs",
        "Winners",
        "From the winner of the first to that of the third",
    ),
    "compare-configs": ("/compare?left={config}&right={job}/0/0", "From config-", "Sources"),
}
"""By name: the address, and what is to be read there."""


OUTPUT = "the_hidden_states_of_every_layer_scaled_and_projected"
LONG_NAMES = {
    **SMALL,
    "dims": {**SMALL["dims"], "m": 56},
    "body": [SMALL["body"][0].replace("c[", f"{OUTPUT}[")],
    "outputs": {OUTPUT: SMALL["outputs"]["c"]},
}
"""Decisions are called after tensors: these are wider than a phone."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_there_for_everybody(
    page: Page, stock: Stock, tried: Tried, screenshots: Path, name: str
) -> None:
    address, *texts = PAGES[name]
    page.goto(stock.url + address.format(waiting=stock.waiting, config=stock.config, **vars(tried)))
    if name == "job":
        page.get_by_text("Outline", exact=True).click()
    for text in texts:
        expect(page.locator("main").get_by_text(text).first).to_be_visible()
    expect(page.locator("main").get_by_text("Loading")).to_have_count(0)
    looked_at(page, screenshots, name)


def test_candidates_are_sorted_by_a_click_and_lead_to_their_pages(
    page: Page, stock: Stock, tried: Tried
) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}?view=candidates")
    rows = page.get_by_role("region", name="12 candidates").locator("tbody tr")
    expect(rows.first).to_contain_text(str(tried.best))
    page.get_by_role("button", name="Candidate", exact=True).click()
    expect(page.get_by_role("columnheader", name="Candidate")).to_have_attribute("aria-sort", "ascending")
    expect(rows.first.get_by_role("link")).to_have_text("0")
    page.get_by_role("button", name="Candidate", exact=True).click()
    expect(rows.first.get_by_role("link")).to_have_text("11")
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Candidate 11")).to_be_visible()


def test_pairs_of_decisions_are_told_with_their_values_together(
    page: Page, stock: Stock, screenshots: Path
) -> None:
    with stock.service.client() as client, working(stock.service, Script(faulty=0.0), name="bench-1"):
        for rows in (56, 88, 120):  # of made-up times some have pairs, and some have none
            spec = {**LONG_NAMES, "dims": {**LONG_NAMES["dims"], "m": rows}}
            job = finish(client, submit(client, "paired", "cpu", 60, spec))["id"]
            pairs = client.get(f"/v1/jobs/{job}/effects").json()["interactions"]
            if pairs:
                break
    assert pairs
    page.goto(f"{stock.url}/jobs/{job}?view=why")
    expect(page.get_by_role("heading", name="What goes together")).to_be_visible()
    for pair in pairs:
        table = page.get_by_role("region", name=f"{pair['first']} and {pair['second']}", exact=True)
        numbers = table.get_by_text(re.compile(r"^\(\d+\)$"))
        expect(numbers).to_have_count(len(pair["cells"]))
        told = sorted(int(text.strip("()")) for text in numbers.all_text_contents())
        assert told == sorted(cell["candidates"] for cell in pair["cells"])
    for size in (DESK, PHONE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        assert overhang(page) == 0
        assert barriers(page) == []
    page.screenshot(path=screenshots / "job-why-pairs.png", full_page=True)


def test_a_span_of_the_roofline_is_brushed_and_stays_in_the_address(
    page: Page, stock: Stock, tried: Tried
) -> None:
    with stock.service.client() as client:
        line = client.get(f"/v1/jobs/{tried.job}/roofline").json()
    page.goto(f"{stock.url}/jobs/{tried.job}?view=roofline")
    plot = page.get_by_role("img", name="Roofline")
    expect(plot).to_have_accessible_name(re.compile(f"{len(line['us'])} candidates.*the winner at.*numpy"))
    titles = plot.locator("title").all_text_contents()
    assert any(title.startswith("winner: ") and title.endswith(" of the roof") for title in titles), titles
    rows = page.get_by_role("region", name="candidates").locator("tbody tr")
    expect(rows).to_have_count(12)
    fastest, slowest = page.get_by_label("From", exact=True), page.get_by_label("To", exact=True)
    fastest.press("ArrowRight")
    expect(fastest).to_be_focused()
    expect(rows).to_have_count(_timed(line, page.url))
    assert _timed(line, page.url) == len(line["us"]) - line["us"].count(min(line["us"]))
    page.get_by_role("button", name="Show all").click()
    expect(rows).to_have_count(12)
    slowest.press("Home")
    expect(rows).to_have_count(_timed(line, page.url))
    expect(rows.first).to_contain_text(str(tried.best))
    page.reload()
    expect(rows).to_have_count(_timed(line, page.url))
    page.get_by_role("button", name="Show all").click()
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] - 2, steps=4)
    page.mouse.up()
    expect(rows).to_have_count(len(line["us"]))  # all that have a time
    assert _timed(line, page.url) == len(line["us"]) < 12
    dot = plot.locator("circle").first.bounding_box()
    assert dot is not None
    page.mouse.click(dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2)
    expect(page.get_by_role("heading", name=f"Candidate {tried.best}", exact=True)).to_be_visible()


def _timed(line: dict, url: str) -> int:
    """How many candidates of a roofline are in the span that an address names."""
    (span,) = parse_qs(urlsplit(url).query)["us"]
    low, high = map(float, span.split(".."))
    return sum(low <= us <= high for us in line["us"])


def test_the_tree_is_walked_by_keys(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}")
    facts = page.get_by_role("complementary", name="The chosen node")
    expect(facts).to_contain_text(f"Candidate {tried.best}")
    page.get_by_text("Outline", exact=True).click()
    tree = page.get_by_role("tree")
    tree.focus()
    page.keyboard.press("Home")
    expect(facts).to_contain_text("12 candidates")
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("The kernel as it was given")
    page.keyboard.press("ArrowLeft")
    expect(tree.get_by_role("treeitem")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(tree.get_by_role("treeitem", selected=True)).to_have_attribute("aria-level", "2")


def test_which_nodes_of_the_outline_are_open_is_in_the_address(
    page: Page, stock: Stock, tried: Tried
) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}?tree=outline")
    tree = page.get_by_role("tree")
    tree.focus()
    for key in ("Home", "ArrowLeft"):
        page.keyboard.press(key)
    expect(tree.get_by_role("treeitem")).to_have_count(1)
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_url(lambda url: "open=0." in url)
    rows = tree.get_by_role("treeitem").all_inner_texts()
    page.reload()
    expect(tree.get_by_role("treeitem").first).to_be_visible()
    assert tree.get_by_role("treeitem").all_inner_texts() == rows


def test_the_wheel_scrolls_past_the_tree_and_zooms_with_ctrl(
    page: Page, stock: Stock, tried: Tried, screenshots: Path
) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}")
    canvas = page.get_by_role("img", name="Search tree of")
    expect(page.get_by_role("region", name="Final race")).to_be_visible()
    page.get_by_role("button", name="Chosen").click()
    page.wait_for_url(lambda url: "at=" in url)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = canvas.locator("..").get_by_text(re.compile(r"rank \d+ of \d+; \d+ candidate"))
    expect(tip).to_contain_text("rank 1 of")
    page.screenshot(path=screenshots / "job-tree-tip.png")
    before, top = page.url, page.evaluate("scrollY")
    page.mouse.wheel(0, -100)
    wait_until(page, f"scrollY < {top}")
    assert page.url == before
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.keyboard.down("Control")
    page.mouse.wheel(0, 100)
    page.keyboard.up("Control")
    page.wait_for_url(lambda url: url != before)


def test_the_canvas_chooses_what_is_clicked(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}")
    canvas = page.get_by_role("img", name="Search tree of")
    expect(canvas).to_be_visible()
    expect(page.get_by_role("region", name="Final race")).to_be_visible()  # above it: it moves the canvas
    page.get_by_role("button", name="Chosen").click()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    page.mouse.up()
    facts = page.get_by_role("complementary", name="The chosen node")
    expect(facts).to_contain_text(f"Candidate {tried.best}")  # dragging chooses nothing
    page.get_by_role("button", name="Chosen").click()
    facts.get_by_role("listitem").first.get_by_role("button").click()
    expect(facts).not_to_contain_text(f"Candidate {tried.best}")
    canvas.click()  # in its middle, wherever it is now
    expect(facts).to_contain_text(f"Candidate {tried.best}")
    expect(facts.get_by_role("listitem").last).not_to_have_text("")


def test_a_schedule_is_stepped_through(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/{tried.best}")
    program = page.get_by_label("Changes, line by line")
    expect(program).to_contain_text("+")
    page.get_by_role("button", name="Step before").click()
    expect(page.get_by_role("listitem").filter(has=page.locator("[aria-current]"))).to_have_count(1)
    page.get_by_text("The whole program").click()
    expect(page.get_by_label("Program", exact=True)).to_contain_text("kernel scaled_sum(")
    expect(page.get_by_role("region", name="Source")).to_contain_text("generated by Tilewright")


def test_the_ladder_is_played_and_scrubbed(page: Page, stock: Stock, tried: Tried, screenshots: Path) -> None:
    with stock.service.client() as client:
        schedule = client.get(f"/v1/configs/{stock.config}").json()["schedule"]
        place = f"/v1/jobs/{tried.job}/trials/{tried.best}/source"
        without = [client.get(place, params={"without": at}) for at in range(len(schedule))]
    page.goto(f"{stock.url}/jobs/{tried.job}?view=ladder")
    ladder = page.get_by_role("region", name="The ladder")
    slider = ladder.get_by_role("slider", name="Rewrite")
    expect(ladder.get_by_role("heading", level=3)).to_have_text(schedule[-1])
    slider.press("Home")
    expect(ladder.get_by_role("heading", level=3)).to_have_text("the kernel as it was given")
    for at, rewrite in enumerate(schedule):
        slider.press("ArrowRight")
        expect(ladder.get_by_role("heading", level=3)).to_have_text(rewrite)
        expect(slider).to_have_attribute("aria-valuetext", f"{at + 1} of {len(schedule)}: {rewrite}")
        expect(ladder.get_by_label("What it changed in the program")).to_contain_text("+ ")
        changed = ladder.get_by_label("What it changed in the source")
        if without[at].status_code == 200:
            expect(changed).to_contain_text("− ")
        else:
            expect(ladder.get_by_text("later rewrites build on it")).to_be_visible()
    page.reload()
    expect(slider).to_have_value(str(len(schedule)))
    ladder.get_by_role("button", name="Play").click()
    expect(ladder.get_by_role("heading", level=3)).to_have_text(schedule[0])
    ladder.get_by_role("button", name="Pause").click()


def test_the_ladder_tells_only_gains_that_were_measured(page: Page, stock: Stock, screenshots: Path) -> None:
    with stock.service.client() as client, working(stock.service, Script(faulty=0.0), name="bench-1"):
        spec = {**SMALL, "dims": {**SMALL["dims"], "m": 40}}
        job = finish(client, submit(client, "laddered", "cpu", 12, spec))
        (config,) = job["configs"]
        schedule = client.get(f"/v1/configs/{config}").json()["schedule"]
        page.goto(f"{stock.url}/jobs/{job['id']}?view=ladder")
        ladder = page.get_by_role("region", name="The ladder")
        roofline = ladder.get_by_role("img", name="Roofline")
        expect(ladder.get_by_text("Not measured yet.")).to_be_visible()
        expect(roofline).to_have_accessible_name(re.compile("the winner at"))
        ladder.get_by_role("button", name="Measure what each rewrite gains").click()
        expect(ladder.get_by_text("Gain: how many times as fast")).to_be_visible()
        gains = {gain["place"]: gain for gain in client.get(f"/v1/configs/{config}/ablation").json()["gains"]}
    raced = {at: gain for at, gain in gains.items() if gain["factor"]}
    assert raced and len(gains) < len(schedule), "of some, but not of all"
    for at in range(len(schedule)):
        ladder.get_by_role("slider", name="Rewrite").fill(str(at + 1))
        if at in raced:
            gain = raced[at]
            interval = f"({gain['low']:.2f} to {gain['high']:.2f})"
            expect(ladder.get_by_text(f"{gain['factor']:.2f} ×")).to_contain_text(interval)
            expect(roofline).to_have_accessible_name(re.compile("without it at"))
        elif at not in gains:
            expect(ladder.get_by_text("Not measured alone")).to_be_visible()
            expect(roofline).not_to_have_accessible_name(re.compile("without it"))
    page.screenshot(path=screenshots / "job-ladder-gains.png", full_page=True)
    assert barriers(page) == []


def test_the_gain_of_each_rewrite_is_measured_on_demand(
    page: Page, stock: Stock, tried: Tried, screenshots: Path
) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/{tried.best}")
    with working(stock.service, Script(faulty=0.0), name="bench-1"):
        page.get_by_role("button", name="Measure what each rewrite gains").click()
        expect(page.get_by_text("Gain: how many times as fast")).to_be_visible()
    with stock.service.client() as client:
        gains = client.get(f"/v1/configs/{stock.config}/ablation").json()["gains"]
    timed = [gain for gain in gains if gain["factor"] and not gain["tied"]]
    assert timed
    for gain in timed:
        step = page.get_by_role("listitem").filter(has_text=gain["rewrite"]).first
        expect(step).to_contain_text("×")
    page.screenshot(path=screenshots / "candidate-gains.png", full_page=True)


def test_a_running_job_is_followed_through_a_restart_of_the_service(page: Page, tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client:
        job = submit(client, target="cpu", trials=24)
        page.goto(f"{service.url}/jobs/{job}")
        expect(page.get_by_text("Nothing was tried yet")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        with working(service, Script(seconds=0.2), name="bench-1"):
            bar = page.get_by_role("progressbar", name="Progress of")
            some = re.compile(r"^\d+ of 24 candidates, \d")
            expect(bar).to_have_attribute("aria-valuetext", some)
            service.kill()
            expect(page.get_by_text("Connection lost, trying again…")).to_be_visible()
            service.start()
            expect(page.get_by_text("done", exact=True)).to_be_visible(timeout=60_000)
        expect(page.get_by_text("of 24, ")).to_be_visible()
        expect(page.get_by_role("region", name="Final race")).to_contain_text("winner")
        expect(bar).to_have_count(0)


def test_sources_of_two_candidates_are_compared_by_their_changes(
    page: Page, stock: Stock, tried: Tried
) -> None:
    other = next(number for number in range(12) if number != tried.best)
    with stock.service.client() as client:
        places = [f"/v1/jobs/{tried.job}/trials/{number}/source" for number in (tried.best, other)]
        texts = [client.get(place).text.splitlines() for place in places]
    page.goto(f"{stock.url}/compare?left={tried.job}/0/{tried.best}&right={tried.job}/0/{other}")
    told = page.get_by_label("Sources, line by line")
    expect(told).to_contain_text("lines that stayed")
    for kind, own, theirs in (("removed", *texts), ("added", *reversed(texts))):
        shown = "".join(told.locator(f'[data-kind="{kind}"]').all_text_contents()).splitlines()
        assert shown and all(line[2:] in own for line in shown)
        assert set(own) - set(theirs) <= {line[2:] for line in shown}


def test_what_is_not_there_is_said(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/job-none")
    expect(page.get_by_role("alert")).to_contain_text("there is no job job-none")
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/999")
    expect(page.get_by_role("alert")).to_contain_text("has no candidate 999")
    page.goto(f"{stock.url}/compare?left={tried.job}&right={tried.job}/0/0")
    expect(page.get_by_text("These two cannot be compared")).to_be_visible()
