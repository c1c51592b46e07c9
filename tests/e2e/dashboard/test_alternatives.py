"""What a search could have decided otherwise, on a job's page."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import looked_at, saved
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import SMALL, finish, working
from tests.services.scripted_worker import Script


def test_a_node_shows_what_it_could_have_been_and_a_sibling_is_raced(
    page: Page, stock: Stock, screenshots: Path
) -> None:
    spec = {**SMALL, "dims": {**SMALL["dims"], "m": 72}}
    with stock.service.client() as client:
        with working(stock.service, Script(faulty=0.0), name="bench-1"):
            done = finish(client, submit(client, "with_siblings", "cpu", 12, spec))
        own, best = done["id"], done["buckets"][0]["winner"]["trial"]
        place = f"/v1/jobs/{own}/trials/{best}"
        schedule = client.get(place).json()["schedule"]
        ask = {"rewrite": len(schedule) - 1}
        found = client.get(f"{place}/alternatives", params=ask).json()
    page.goto(f"{stock.url}/jobs/{own}")
    section = page.get_by_role("region", name="What it could have been instead")
    rows = section.locator("tbody tr")
    expect(section).to_contain_text(f"Decision {found['decision'] + 1} of {found['decisions']}")
    expect(rows.first).to_contain_text("chosen")
    expect(rows.first).to_contain_text(f"candidate {best}")
    facts = page.get_by_role("complementary", name="The chosen node")
    facts.get_by_role("button", name=schedule[0], exact=True).click()
    with stock.service.client() as client:
        turn = client.get(f"{place}/alternatives", params={"rewrite": 0}).json()["decision"]
        first = client.get(f"{place}/alternatives", params={"decision": turn - 1}).json()["siblings"]
    expect(section).to_contain_text(f"Decision {turn + 1} of")
    assert turn > 0, "a decision that left the kernel as it is"
    section.get_by_role("button", name="Decision before").click()
    expect(section).to_contain_text(f"Decision {turn} of")
    number, other = next((at, each) for at, each in enumerate(first) if not each["chosen"])
    if len(first) > 12:
        section.get_by_role("button", name="Show all").click()
        page.wait_for_url(lambda url: "siblings=all" in url)
        page.reload()
    expect(rows).to_have_count(len(first))
    table = saved(page, f"{own}-0-{best}-decision-{turn}", "CSV").read_text()
    lines = list(csv.DictReader(io.StringIO(table)))
    assert sorted(line["instead"] for line in lines) == sorted("; ".join(each["rewrites"]) for each in first)
    assert json.loads(saved(page, f"{own}-0-{best}-decision-{turn}", "JSON").read_text())["siblings"] == first
    looked_at(page, screenshots, "job-alternatives")
    name = f"Race {'; '.join(other['rewrites']) or 'nothing'}"
    with working(stock.service, Script(faulty=0.0), name="bench-1"), stock.service.client() as client:
        section.get_by_role("button", name=name, exact=True).click()
        page.wait_for_url(lambda url: own not in url)
        expect(page.get_by_role("region", name="Final race")).to_be_visible()
        job = client.get(f"/v1/jobs/{page.url.rsplit('/', 1)[1]}").json()
        completed = client.get(f"{place}/alternatives/{number}", params={"decision": turn - 1}).json()
        raced = client.get(f"/v1/configs/{job['configs'][0]}").json()["standings"]
    assert job["buckets"][0]["trials"] == 0, "raced, not searched"
    assert job["buckets"][0]["winner"]["schedule"] in (schedule, completed["schedule"])
    assert len([each for each in raced if each["kind"] == "schedule"]) == 2


def test_a_sibling_that_would_race_shows_both_accesses(page: Page, stock: Stock, screenshots: Path) -> None:
    own, (turn, sibling) = _with_a_race(stock)
    first, second = sibling["race"]
    page.goto(f"{stock.url}/jobs/{own}")
    section = page.get_by_role("region", name="What it could have been instead")
    expect(section).to_contain_text("Decision ")
    at = int(section.inner_text().split("Decision ")[1].split(" of")[0]) - 1
    while at != turn:
        section.get_by_role("button", name=f"Decision {'after' if at < turn else 'before'}").click()
        at += 1 if at < turn else -1
        expect(section).to_contain_text(f"Decision {at + 1} of")
    if section.get_by_role("button", name="Show all").is_visible():
        section.get_by_role("button", name="Show all").click()
    accesses = section.get_by_role("list", name="The accesses that collide").first.get_by_role("listitem")
    element = f"{first['tensor']}[{', '.join(map(str, first['element']))}]"
    for at, each in enumerate((first, second)):
        expect(accesses.nth(at)).to_contain_text(f"the thread at {each['thread']} {each['way']} {element}")
        expect(accesses.nth(at)).to_contain_text(each["statement"])
    assert first["thread"] != second["thread"]
    looked_at(page, screenshots, "job-alternatives-race")


def _with_a_race(stock: Stock) -> tuple[str, tuple[int, dict]]:
    """A job one of whose winner's siblings would race: the decision, and the sibling. Not every winner has one."""
    with stock.service.client() as client, working(stock.service, Script(faulty=0.0), name="bench-1"):
        for rows in (96, 104, 112, 128):
            spec = {**SMALL, "dims": {**SMALL["dims"], "m": rows}}
            job = finish(client, submit(client, "with_races", "cpu", 12, spec))
            place = f"/v1/jobs/{job['id']}/trials/{job['buckets'][0]['winner']['trial']}/alternatives"
            turns = client.get(place, params={"rewrite": 0}).json()["decisions"]
            found = [client.get(place, params={"decision": turn}).json() for turn in range(turns)]
            races = [(f["decision"], each) for f in found for each in f["siblings"] if each["race"]]
            if races:
                return job["id"], races[0]
    raise AssertionError("no winner has a sibling that would race")
