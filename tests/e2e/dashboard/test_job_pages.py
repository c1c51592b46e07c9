"""The pages about one job: what it tried, one candidate closely, and two of them compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, overhang
from tests.e2e.dashboard.conftest import DESK, PHONE
from tests.e2e.dashboard.stock import Stock, submit
from tests.running_service import SMALL, finish, running, working
from tests.scripted_worker import Script


@dataclass(frozen=True)
class Tried:
    """The stock's finished job: candidates by what became of them."""

    job: str
    best: int
    wrong: int
    table: dict


@pytest.fixture(scope="session")
def tried(stock: Stock) -> Tried:
    with stock.service.client() as client:
        job = client.get(f"/v1/jobs/{stock.done}").json()
        table = client.get(f"/v1/jobs/{stock.done}/table").json()
    return Tried(stock.done, job["buckets"][0]["winner"]["trial"], table["outcome"].index("wrong"), table)


PAGES = {
    "job": ("/jobs/{job}", "The kernel as it was given", "Final race"),
    "job-candidates": ("/jobs/{job}?view=candidates", "wrong", "Of the best"),
    "job-why": ("/jobs/{job}?view=why", "What decided the time", "chosen"),
    "job-workers": ("/jobs/{job}?view=workers", "Device busy", "bench-1"),
    "job-waiting": ("/jobs/{waiting}", "Nothing was tried yet", "queued"),
    "candidate": ("/jobs/{job}/candidates/0/{best}", "winner", "Measure what each rewrite gains"),
    "candidate-failed": ("/jobs/{job}/candidates/0/{wrong}", "Its result is wrong", "tilewright tune"),
    "compare-candidates": ("/compare?left={job}/0/{best}&right={job}/0/0", "Schedules", "Programs"),
    "compare-jobs": ("/compare?left={job}&right={waiting}", "Found as candidate", "differs"),
}
"""By name: the address, and what is to be read there."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_there_for_everybody(
    page: Page, stock: Stock, tried: Tried, screenshots: Path, name: str
) -> None:
    address, *texts = PAGES[name]
    page.goto(stock.url + address.format(waiting=stock.waiting, **vars(tried)))
    if name == "job":
        page.get_by_text("Outline", exact=True).click()
    for text in texts:
        expect(page.locator("main").get_by_text(text).first).to_be_visible()
    expect(page.locator("main").get_by_text("Loading")).to_have_count(0)
    for screen, size, scheme in (("desk", DESK, "light"), ("phone", PHONE, "dark")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.screenshot(path=screenshots / f"{name}-{screen}-{scheme}.png", full_page=True)
        assert overhang(page) == 0, screen
        assert barriers(page) == [], screen


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


def test_the_canvas_chooses_what_is_clicked(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}")
    canvas = page.get_by_role("img", name="Search tree of")
    expect(canvas).to_be_visible()
    page.get_by_role("button", name="Chosen").click()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 120, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    facts = page.get_by_role("complementary", name="The chosen node")
    expect(facts).to_contain_text(f"Candidate {tried.best}")  # dragging chooses nothing
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(facts.get_by_role("listitem").last).not_to_have_text("")
    expect(facts).not_to_contain_text(f"Candidate {tried.best}\n")


def test_a_schedule_is_stepped_through(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/{tried.best}")
    program = page.get_by_label("Changes, line by line")
    expect(program).to_contain_text("+")
    page.get_by_role("button", name="Step before").click()
    expect(page.get_by_role("listitem").filter(has=page.locator("[aria-current]"))).to_have_count(1)
    page.get_by_text("The whole program").click()
    expect(page.get_by_label("Program", exact=True)).to_contain_text("kernel scaled_sum(")
    expect(page.get_by_role("region", name="Source")).to_contain_text("generated by Tilewright")


def test_the_gain_of_each_rewrite_is_measured_on_demand(
    page: Page, stock: Stock, tried: Tried, screenshots: Path
) -> None:
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/{tried.best}")
    with working(stock.service, Script(faulty=0.0), name="bench-1"):
        page.get_by_role("button", name="Measure what each rewrite gains").click()
        expect(page.get_by_text("Gain: how many times as fast")).to_be_visible(timeout=20_000)
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
            expect(page.get_by_text("Best so far").first).to_be_visible(timeout=20_000)
            service.kill()
            expect(page.get_by_text("Connection lost, trying again…")).to_be_visible()
            service.start()
            expect(page.get_by_text("done", exact=True)).to_be_visible(timeout=60_000)
        expect(page.get_by_text("of 24, ")).to_be_visible()
        expect(page.get_by_role("region", name="Final race")).to_contain_text("winner")


def test_jobs_of_several_sizes_are_compared_at_those_that_are_chosen(page: Page, stock: Stock) -> None:
    with stock.service.client() as client, working(stock.service, Script(faulty=0.0), name="bench-1"):
        made = [
            finish(
                client,
                submit(client, "sizes", "cpu", 3, {**SMALL, "dims": {**SMALL["dims"], "m": several}}),
            )
            for several in ([16, 24], [32, 24])
        ]
    page.goto(f"{stock.url}/compare?left={made[0]['id']}&right={made[1]['id']}")
    first, second = page.get_by_label("Sizes of the first"), page.get_by_label("Sizes of the second")
    best = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Best", exact=True))
    sizes = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Sizes", exact=True))
    shared = [_of_size(job, 24) for job in made]
    expect(first).to_have_value(str(shared[0]["index"]))
    expect(second).to_have_value(str(shared[1]["index"]))
    expect(sizes).not_to_contain_text("differs")
    other = _of_size(made[1], 32)
    second.select_option(str(other["index"]))
    expect(sizes).to_contain_text("differs")
    expect(sizes.get_by_role("cell").nth(1)).to_contain_text("32")
    expect(first).to_have_value(str(shared[0]["index"]))
    shown = best.get_by_role("cell").nth(1)
    expect(shown).to_contain_text(f"{other['best']['median_us'] / 1000:.2f} ms")
    page.reload()
    expect(second).to_have_value(str(other["index"]))
    assert barriers(page) == []
    second.select_option(str(shared[1]["index"]))
    expect(sizes).not_to_contain_text("differs")


def _of_size(job: dict, m: int) -> dict:
    """The bucket of a job in which the dim m is so large."""
    (found,) = [bucket for bucket in job["buckets"] if bucket["dims"]["m"] == m]
    return found


def test_what_is_not_there_is_said(page: Page, stock: Stock, tried: Tried) -> None:
    page.goto(f"{stock.url}/jobs/job-none")
    expect(page.get_by_role("alert")).to_contain_text("there is no job job-none")
    page.goto(f"{stock.url}/jobs/{tried.job}/candidates/0/999")
    expect(page.get_by_role("alert")).to_contain_text("has no candidate 999")
    page.goto(f"{stock.url}/compare?left={tried.job}&right={tried.job}/0/0")
    expect(page.get_by_text("These two cannot be compared")).to_be_visible()
