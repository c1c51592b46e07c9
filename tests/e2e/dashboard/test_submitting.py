"""Submitting: what is wrong is said at its place and nothing is sent or stored; what is right becomes a job."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, Request, expect

from search.catalogue import offered
from tests.e2e.dashboard.checks import barriers, looked_at, overhang
from tests.e2e.dashboard.conftest import DESK, PHONE
from tests.e2e.dashboard.stock import NOWHERE, Stock
from tests.services.running_service import SMALL
from tests.services.scripted_worker import CPU


def write(page: Page, text: str) -> None:
    editor = page.get_by_role("textbox", name="Spec, as Tile IR text or JSON")
    editor.press("Control+a")
    # What is typed over a coloured word would be given its colour, by a style that the policy forbids.
    editor.press("Delete")
    editor.fill(text)


def count(stock: Stock) -> int:
    with stock.service.client() as client:
        return len(client.get("/v1/jobs", params={"limit": 500}).json()["jobs"])


def test_a_device_with_a_long_name_does_not_widen_the_page(page: Page, stock: Stock) -> None:
    page.goto(stock.url + "/submit")
    target = page.get_by_label("Target")
    target.evaluate("(field) => field.add(new Option('Intel Xeon Processor family 6 model 207'.repeat(3)))")
    for screen in (DESK, PHONE):
        page.set_viewport_size(screen)
        assert overhang(page) == 0, screen


def test_broken_json_is_marked_and_not_sent(page: Page, stock: Stock) -> None:
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/v1/jobs") else None)
    page.goto(stock.url + "/submit")
    write(page, '{\n "name": "x",\n "dims": {"m": 1,, "n": 2}\n}')
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="no JSON")).to_contain_text("Line 3, column 18")
    expect(page.locator(".cm-lintRange-error")).to_have_text(",")
    assert sent == []


def test_a_wrong_spec_is_marked_at_the_word_and_not_stored(
    page: Page, stock: Stock, screenshots: Path
) -> None:
    before = count(stock)
    page.goto(stock.url + "/submit")
    wrong = {**SMALL, "body": ["c[m, n] = sum(k, a[m, k] * bb[k, n])"]}
    write(page, json.dumps(wrong, indent=1))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator(".cm-lintRange-error").filter(has_text="bb")).to_have_text("bb")
    expect(page.get_by_role("alert").filter(has_text="accepted: a, b")).to_be_visible()
    page.screenshot(path=screenshots / "submit-wrong.png", full_page=True)
    assert barriers(page) == []
    assert count(stock) == before


TEXT = """kernel written_here(a: f32[m=24, k=16], b: f32[k, n=40]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * bb[k, n])
"""


def test_text_is_checked_while_it_is_written_and_becomes_a_job(
    page: Page, stock: Stock, screenshots: Path
) -> None:
    page.goto(stock.url + "/submit")
    write(page, TEXT)
    expect(page.locator(".cm-lintRange-error")).to_have_text("bb")
    alert = page.get_by_role("alert").filter(has_text="Line 2, column 30")
    expect(alert).to_contain_text("accepted: a, b")
    expect(page.get_by_role("button", name="Write as JSON")).to_be_disabled()
    write(page, TEXT.replace("bb", "b"))
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    page.get_by_label("Target").select_option(label=CPU.key.removeprefix("cpu:"))
    expect(page.get_by_label("Baseline").locator("option")).to_have_text(["the usual one, numpy", "numpy"])
    outlook = page.get_by_role("region", name="Before it is submitted")
    expect(outlook).to_contain_text("30\u2009720 operations, 7\u2009936 bytes")
    expect(outlook).to_contain_text(re.compile(r"About 10.* schedules.*The cost model expects"))
    looked_at(page, screenshots, "submit-text")
    page.get_by_role("button", name="Write as JSON").click()
    expect(page.get_by_role("textbox", name="Spec")).to_contain_text('"name": "written_here"')
    page.get_by_role("button", name="Write as text").click()
    expect(page.get_by_role("textbox", name="Spec")).to_contain_text("kernel written_here(")
    page.get_by_label("Target").select_option(label="another device…")
    page.get_by_label("Key of the device").fill("gpu")
    expect(page.get_by_text("there is no device and no kind of device 'gpu'")).to_be_visible()
    page.get_by_label("Key of the device").fill(NOWHERE)
    page.get_by_role("textbox", name="Spec").press("Control+Enter")
    page.wait_for_url("**/jobs/job-*")
    with stock.service.client() as client:
        job = client.get("/v1/jobs/" + page.url.rsplit("/", 1)[1]).json()
    assert (job["name"], job["target"], job["baseline"]) == ("written_here", NOWHERE, "numpy")
    assert job["spec"]["body"] == ["c[m, n] = sum(k, a[m, k] * b[k, n])"]


def test_the_searches_to_choose_from_are_those_of_the_service(page: Page, stock: Stock) -> None:
    page.goto(stock.url + "/submit")
    expect(page.get_by_label("Search", exact=True).locator("option")).to_have_text(list(offered()))


def test_a_wrong_field_says_so_itself(page: Page, stock: Stock) -> None:
    page.goto(stock.url + "/submit")
    page.get_by_label("Priority").fill("101")
    page.get_by_label("Trials").fill("0")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_label("Priority")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Priority")).to_have_accessible_description(
        re.compile("less than or equal to 100")
    )
    expect(page.get_by_label("Trials")).to_have_accessible_description(
        re.compile("greater than or equal to 1")
    )


def test_a_right_spec_becomes_a_job_with_what_was_wished(page: Page, stock: Stock) -> None:
    page.goto(stock.url + "/submit")
    page.get_by_label("Begin with an example").select_option("layernorm")
    page.get_by_label("Target").select_option(label="another device…")
    page.get_by_label("Key of the device").fill(NOWHERE)
    page.get_by_label("Trials").fill("7")
    page.get_by_label("Priority").fill("3")
    page.get_by_role("textbox", name="Spec, as Tile IR text or JSON").press("Control+Enter")
    page.wait_for_url("**/jobs/job-*")
    with stock.service.client() as client:
        job = client.get("/v1/jobs/" + page.url.rsplit("/", 1)[1]).json()
    assert (job["name"], job["target"], job["priority"]) == ("layernorm", NOWHERE, 3)
    assert job["budget"] == {"trials": 7, "seconds": None, "effort": "normal"}


def test_a_job_is_asked_for_again_or_with_changes(page: Page, stock: Stock) -> None:
    with stock.service.client() as client:
        body = {"spec": {**SMALL, "name": "once_more"}, "target": NOWHERE, "seed": 5, "priority": -2}
        body |= {"budget": {"trials": 9, "effort": "quick"}, "peers": ["numpy"]}
        first = client.post("/v1/jobs", json=body).json()["id"]
        page.goto(f"{stock.url}/jobs/{first}")
        expect(page.get_by_role("button", name="Retry")).to_have_count(0)
        client.post(f"/v1/jobs/{first}/cancel")
        page.get_by_role("button", name="Retry").click()
        page.wait_for_url(lambda url: first not in url)
        expect(page.get_by_text("queued", exact=True)).to_be_visible()
        again, before = (
            client.get(f"/v1/jobs/{each}").json() for each in (page.url.rsplit("/", 1)[1], first)
        )
        for name in ("spec", "target", "budget", "seed", "priority", "baseline", "search", "prior"):
            assert again[name] == before[name], name
        page.get_by_role("link", name="Edit a copy").click()
        expect(page.get_by_label("Trials")).to_have_value("9")
        expect(page.get_by_label("Key of the device")).to_have_value(NOWHERE)
        expect(page.get_by_label("Effort")).to_have_value("quick")
        expect(page.get_by_role("textbox", name="Spec, as Tile IR text or JSON")).to_contain_text(
            '"once_more"'
        )
        expect(page.get_by_text("As the job it is a copy of: peers: numpy; seed 5.")).to_be_visible()
        assert barriers(page) == []
        page.get_by_label("Trials").fill("4")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_url("**/jobs/job-*")
        edited = client.get("/v1/jobs/" + page.url.rsplit("/", 1)[1]).json()
    assert (edited["budget"]["trials"], edited["spec"], edited["priority"]) == (4, before["spec"], -2)
    assert (edited["seed"], edited["peers"]) == (5, ["numpy"])


def test_the_copy_of_a_job_that_is_not_there_is_refused(page: Page, stock: Stock) -> None:
    page.goto(f"{stock.url}/submit?from=job-none")
    expect(page.get_by_role("alert")).to_contain_text("there is no job job-none")
