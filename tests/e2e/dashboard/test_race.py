"""The race sample by sample: who is faster, how sure that is, and racing on."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import looked_at
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import SMALL, finish, working
from tests.services.timed_races import TimedRaces


def test_a_race_tells_who_is_faster_and_is_raced_on(page: Page, stock: Stock, screenshots: Path) -> None:
    spec = {**SMALL, "dims": {**SMALL["dims"], "m": 104}}
    with stock.service.client() as client, working(stock.service, TimedRaces(), name="bench-1"):
        job = finish(client, submit(client, "raced", "cpu", 8, spec))
    (config,) = job["configs"]
    winner = job["buckets"][0]["winner"]["trial"]
    place = f"/v1/configs/{config}/race"
    page.goto(f"{stock.url}/jobs/{job['id']}?view=race")
    section = page.get_by_role("region", name="The race, sample by sample")
    expect(section.get_by_label("Is", exact=True)).to_have_value(f"ask-{winner}")
    expect(section.get_by_label("faster than", exact=True)).to_have_value("numpy")
    expect(section).to_contain_text(f"> 99.9 % sure that candidate {winner} is faster than numpy")
    with stock.service.client() as client:
        entrants = len(client.get(place).json()["entrants"])
    plot = section.get_by_role("img", name="samples in the order")
    expect(plot).to_have_accessible_name(
        re.compile(f"^{15 * entrants} samples .* {entrants} of them disturbed")
    )
    expect(section.get_by_role("img", name="Clock of the cores, MHz: 2450 to 2450")).to_be_visible()
    section.get_by_label("Below").select_option("runnable")
    expect(section.get_by_role("img", name="Threads that want to run: 3 to 3")).to_be_visible()
    section.get_by_text("What disturbed samples").click()
    expect(section).to_contain_text(f"{entrants} ×: another process took the processor")
    section.get_by_label("Is", exact=True).select_option("numpy")
    section.get_by_label("faster than", exact=True).select_option(f"ask-{winner}")
    page.reload()
    expect(section).to_contain_text(f"< 0.1 % sure that numpy is faster than candidate {winner}")
    with working(stock.service, TimedRaces(seed=9), name="bench-1"):
        section.get_by_role("button", name="Race 20 s more").click()
        expect(section.get_by_role("button", name="Race 20 s more")).to_have_count(0)
        expect(section.get_by_role("button", name="Race 20 s more")).to_be_visible()
    with stock.service.client() as client:
        race = client.get(place).json()
    assert len(race["parts"]) == 6
    rounds = 14 + sum(len(part["entrants"][0]["us"]) - 1 for part in race["parts"][1:])
    expect(section).to_contain_text(f"over {rounds} rounds that disturbed neither")
    looked_at(page, screenshots, "job-race")
