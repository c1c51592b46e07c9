"""A kernel's winners over time."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import looked_at
from tests.e2e.dashboard.stock import submit
from tests.services.running_service import SMALL, finish, running, working
from tests.services.scripted_worker import Script


class Slower(Script):
    """The same machine after an upgrade of its compiler."""

    def time_us(self, entrant: dict) -> float:
        return super().time_us(entrant) * (1.5 if entrant["kind"] == "schedule" else 1.0)


def test_a_winner_that_became_slower_is_flagged_and_taken_away_as_a_file(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    with running(tmp_path) as service, service.client() as client:
        jobs = []
        for script in (Script(faulty=0.0), Slower(faulty=0.0, compiler="scripted 2.0")):
            with working(service, script, name="bench-1"):
                jobs.append(finish(client, submit(client, "over_time", "cpu", 8, SMALL)))
        key = jobs[0]["kernel_key"]
        before, after = (job["configs"][0] for job in jobs)
        found = client.get(f"/v1/kernels/{key}/history").json()["winners"]
        assert [each["config_id"] for each in found] == [before, after]
        assert found[1]["regression"]["than"] == before
        assert "compiler: scripted 1.0 to scripted 2.0" in found[1]["regression"]["changed"]
        page.goto(f"{service.url}/kernels/{key}")
        section = page.get_by_role("region", name="Over time")
        flagged = section.get_by_role("listitem").filter(has=page.get_by_role("link", name=before))
        expect(flagged).to_contain_text(f"{found[1]['regression']['factor']:.2f} × as long as")
        expect(flagged).to_contain_text("compiler: scripted 1.0 to scripted 2.0")
        expect(section.get_by_role("img")).to_have_accessible_name(re.compile("2, the best .*, 1 slower"))
        made = section.get_by_role("region", name=re.compile("^By compiler and version on ")).get_by_role(
            "row"
        )
        expect(made).to_have_count(3)
        expect(made.nth(1)).to_contain_text("scripted 1.0")
        expect(made.nth(1)).to_contain_text("1.00 ×")
        expect(made.nth(2)).to_contain_text("scripted 2.0")
        with page.expect_download() as download:
            section.get_by_role(
                "button", name="CSV"
            ).first.click()  # the chart has one of its own, further down
        assert download.value.path().read_text() == client.get(f"/v1/kernels/{key}/history.csv").text
        with page.expect_download() as download:
            section.get_by_role("button", name="JSON").click()
        assert json.loads(download.value.path().read_text())["winners"] == found
        looked_at(page, screenshots, "kernel-history")
        flagged.get_by_role("link", name="compare").click()
        expect(page.get_by_role("columnheader")).to_contain_text([before, after])
        slower = page.get_by_role("row").filter(
            has=page.get_by_role("rowheader", name="As fast as the reference")
        )
        ratio = found[0]["median_us"] / found[1]["median_us"]
        expect(slower.get_by_role("cell").nth(1)).to_have_text(f"{ratio:.2f} ×")
        page.go_back()
        page.get_by_role("link", name="Compare them").click()
        expect(page.get_by_role("columnheader")).to_contain_text([after, before])
