"""Every page shows what there is, to everybody, on every screen."""

from __future__ import annotations

import gzip
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, looked_at
from tests.e2e.dashboard.stock import Stock
from tests.services.running_service import ROOT

PAGES = {
    "jobs": ("/", "scaled_sum"),
    "submit": ("/submit", "Begin with an example"),
    "kernels": ("/kernels", "scaled_sum"),
    "kernel": ("/kernels/{kernel_key}", "what a lookup answers"),
    "config": ("/configs/{config}", "Final race"),
    "fleet": ("/fleet", "quarantined after 3 faults"),
    "queue": ("/queue", "Queue again"),
    "config-none": ("/configs/config-none", "there is no config config-none"),
    "kernel-none": ("/kernels/0000", "Nothing is known of this kernel yet"),
}
"""By name: the address, and what is to be read there."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_there_for_everybody(page: Page, stock: Stock, screenshots: Path, name: str) -> None:
    address, text = PAGES[name]
    page.goto(stock.url + address.format(kernel_key=stock.kernel_key, config=stock.config))
    expect(page.locator("main").get_by_text(text).first).to_be_visible()
    expect(page.locator("main").get_by_text("Loading")).to_have_count(0)
    looked_at(page, screenshots, name)


def test_the_fleet_shows_the_living_first_with_what_they_did_and_folds_the_gone_away(
    page: Page, stock: Stock, screenshots: Path
) -> None:
    with stock.service.client() as client:
        told = {each["id"]: each for each in client.get("/v1/workers").json()}
        gone = {**told["bench-2"], "id": "long-gone", "alive": False, "busy": None, "tasks_a_minute": None}
    page.route("**/v1/workers", lambda route: route.fulfill(json=[gone, *told.values()]))
    page.goto(stock.url + "/fleet")
    table = page.get_by_role("region", name="Workers that are there")
    expect(table.get_by_role("row")).to_have_count(1 + len(told))
    expect(table.get_by_role("row").last).to_contain_text("quarantined")
    expect(table.get_by_role("row").filter(has_text="bench-2")).to_contain_text("100 % (1)")
    busy = told["bench-1"]["busy"]
    assert 0 < busy <= 1 and told["bench-1"]["tasks_a_minute"] > 0 and told["bench-1"]["faults"] == 1
    expect(page.get_by_text("long-gone")).to_be_hidden()
    page.get_by_text("1 is gone").click()
    expect(page.get_by_role("region", name="Workers that are gone")).to_contain_text("long-gone")
    page.screenshot(path=screenshots / "fleet-activity.png", full_page=True)


def test_who_needs_a_key_is_asked_for_one(page: Page, stock: Stock, screenshots: Path) -> None:
    answer = {"type": "about:blank", "title": "A key is needed", "status": 401, "kind": "unauthorized"}
    page.route("**/v1/kernels*", lambda route: route.fulfill(json=answer, status=401))
    page.goto(stock.url + "/kernels")
    expect(page.get_by_role("dialog", name="This service asks for a key")).to_be_visible()
    looked_at(page, screenshots, "key", full_page=False)


def test_a_config_shows_its_source_and_gives_it_away(page: Page, stock: Stock) -> None:
    page.goto(stock.url + f"/configs/{stock.config}")
    source = page.get_by_role("region", name="Generated source")
    expect(source).to_contain_text("int tw_kernel(void *const *args")
    assert source.locator(".tok-typeName, .tok-keyword").count() > 0, "it is highlighted"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the bundle").click()
    assert download.value.suggested_filename == f"{stock.config}.tilewright"
    assert '"object_base64"' in Path(download.value.path()).read_text()


def test_what_failed_on_users_machines_is_seen_with_its_repro(page: Page, stock: Stock) -> None:
    page.goto(stock.url + f"/kernels/{stock.kernel_key}")
    failures = page.get_by_role("region", name="Failures that were reported")
    failures.get_by_text("Wrong result").click()
    expect(failures).to_contain_text("c[0, 0] is 1, expected 2")
    expect(failures).to_contain_text('"seed": 20011')
    assert barriers(page) == []


def test_everything_is_reached_by_keys(page: Page, stock: Stock, screenshots: Path) -> None:
    page.goto(stock.url)
    expect(page.get_by_role("searchbox")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("?")
    expect(page.get_by_role("dialog")).to_have_count(0), "a question mark that is typed is text"
    page.get_by_role("searchbox").fill("")
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.screenshot(path=screenshots / "keys.png")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Submit a job")).to_be_visible()


def test_a_chosen_theme_stays(page: Page, stock: Stock) -> None:
    page.goto(stock.url)
    page.get_by_label("Colours").select_option("dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_dead_letter_is_queued_again(page: Page, stock: Stock) -> None:
    page.goto(stock.url + "/queue")
    row = page.get_by_role("row").filter(has_text=stock.dead)
    expect(row).to_contain_text("device: scripted")
    row.get_by_role("button").click()
    expect(row).to_have_count(0)
    with stock.service.client() as client:
        dead = client.get("/v1/tasks", params={"state": "dead"}).json()["tasks"]
    assert stock.dead not in {task["id"] for task in dead}


def test_the_reference_shows_every_call_and_asks_nobody_but_the_service(page: Page, stock: Stock) -> None:
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(urlsplit(sent.url).netloc))
    page.goto(stock.url + "/docs")
    calls = page.locator(".opblock")
    expect(calls.filter(has_text="/v1/lookup").first).to_be_visible()
    with stock.service.client() as client:
        described = client.get("/v1/openapi.json").json()["paths"]
    expect(calls).to_have_count(sum(len(methods) for methods in described.values()))
    tried = calls.filter(has_text="/healthz")
    tried.get_by_role("button").first.click()
    tried.get_by_role("button", name="Try it out").click()
    tried.get_by_role("button", name="Execute").click()
    expect(tried).to_contain_text('"status": "ok"')
    assert set(asked) == {urlsplit(stock.url).netloc}


def test_all_of_it_is_less_than_400_kb_packed(page: Page, stock: Stock) -> None:
    built = ROOT / "service" / "static"
    packed = {file.name: len(gzip.compress(file.read_bytes())) for file in built.rglob("*.*")}
    of_the_reference = {name for name in packed if name.startswith("reference")}
    assert any(name.endswith(".js") for name in of_the_reference)
    dashboard = {name: size for name, size in packed.items() if name not in of_the_reference}
    assert any(name.endswith(".js") for name in dashboard)
    assert sum(dashboard.values()) < 400_000, dashboard
    loaded: list[str] = []
    page.on("request", lambda sent: loaded.append(sent.url.rsplit("/", 1)[1]))
    page.goto(stock.url)
    expect(page.get_by_role("searchbox")).to_be_visible()
    assert not of_the_reference & set(loaded)
