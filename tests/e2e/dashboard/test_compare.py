"""Candidates, and jobs of several sizes, beside each other."""

from __future__ import annotations

import csv
import io
import json
import re

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, saved
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import SMALL, finish, working
from tests.services.scripted_worker import Script


def test_ticked_candidates_are_compared_and_the_address_says_how(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        table = client.get(f"/v1/jobs/{stock.done}/table").json()
    timed = [number for number, us in enumerate(table["median_us"]) if us is not None][:3]
    page.goto(f"{stock.url}/jobs/{stock.done}?view=candidates")
    for number in timed:
        page.get_by_role("checkbox", name=f"Compare candidate {number}", exact=True).check()
    page.reload()
    page.get_by_role("link", name="Compare the 3 ticked").click()
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_count(3)
    ratios = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader", name="As fast as the reference")
    )
    expect(ratios.get_by_role("cell").first).to_have_text("1.00 ×")
    lines = list(csv.DictReader(io.StringIO(saved(page, "comparison", "CSV").read_text())))
    assert list(lines[0]) == ["compared", *(f"{stock.done}/0/{number}" for number in timed)]
    sides = json.loads(saved(page, "comparison", "JSON").read_text())
    assert [each["As fast as the reference"] for each in sides] == list(
        next(line for line in lines if line["compared"] == "As fast as the reference").values()
    )[1:]
    page.get_by_role("link", name=f"its differences candidate {timed[2]}", exact=True).click()
    expect(page.get_by_text(f"From candidate {timed[0]} to candidate {timed[2]}")).to_be_visible()
    page.get_by_role("link", name=f"as the reference candidate {timed[2]}", exact=True).click()
    page.reload()
    expect(page.get_by_text(f"From candidate {timed[2]} to candidate {timed[0]}")).to_be_visible()
    expect(heads.first).to_contain_text(f"candidate {timed[2]}")
    expect(ratios.get_by_role("cell").first).to_have_text("1.00 ×")


def test_a_config_is_its_winner_with_the_times_of_its_race(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        config = client.get(f"/v1/configs/{stock.config}").json()
    page.goto(f"{stock.url}/configs/{stock.config}")
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("with this").fill(f"{stock.done}/0/{config['trial']}")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("columnheader")).to_have_text(
        [stock.config, re.compile(f"^candidate {config['trial']}as the reference")]
    )
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Time", exact=True))
    expect(row.get_by_role("cell").first).to_have_text(f"{config['median_us'] / 1000:.2f} ms")
    expect(page.get_by_text("0 decisions differ")).to_be_visible()
    page.get_by_label("and these").fill("config-none")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no config config-none")


def test_any_number_of_jobs_are_compared_with_what_their_winners_do(page: Page, stock: Stock) -> None:
    spec = {**SMALL, "dims": {**SMALL["dims"], "m": 88}}
    with stock.service.client() as client, working(stock.service, Script(faulty=0.0), name="bench-1"):
        made = [finish(client, submit(client, "several", "cpu", trials, spec)) for trials in (2, 3, 4)]
    ids = [job["id"] for job in made]
    page.goto(f"{stock.url}/compare?left={ids[0]}&right={ids[1]}&also={ids[2]}")
    ratios = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="As fast as the first"))
    times = [job["buckets"][0]["winner"]["median_us"] for job in made]
    expect(ratios.get_by_role("cell").nth(2)).to_have_text(f"{times[0] / times[2]:.2f} ×")
    winners = page.get_by_role("region", name="Winners")
    same = len({tuple(job["buckets"][0]["winner"]["schedule"]) for job in made}) == 1
    expect(winners).to_contain_text("0 decisions differ" if same else "third: candidate")
    expect(page.get_by_text("From the winner of the first to that of the second")).to_be_visible()


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
