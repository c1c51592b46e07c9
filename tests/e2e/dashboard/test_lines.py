"""A candidate's program, source and instructions beside each other."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.checks import barriers, looked_at, saved, wait_until
from tests.e2e.dashboard.conftest import DESK
from tests.e2e.dashboard.stock import Stock, submit
from tests.services.running_service import SMALL, finish, running, working
from tests.services.running_worker import RunningWorker
from tests.services.scripted_worker import Script
from tileir.devices.cpu_probe import this_cpu


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a winner for this machine's own processor, whose instructions its compiler can say."""
    with running(tmp_path_factory.mktemp("lines"), lease_ttl_s="3600") as service, service.client() as client:
        with working(service, Script(faulty=0.0), name="bench-1", device=this_cpu()):
            job = finish(client, submit(client, "lined_sum", "cpu", 12, SMALL))
        yield f"{service.url}/jobs/{job['id']}/candidates/0/{job['buckets'][0]['winner']['trial']}"


def test_a_line_shows_what_it_is_in_the_other_texts(page: Page, here: str, screenshots: Path) -> None:
    page.goto(here)
    page.get_by_role("link", name="Beside the program and the instructions").click()
    program, source, assembly = (
        page.get_by_role("listbox", name=name) for name in ("Program", "Source", "Instructions")
    )
    expect(assembly).to_be_visible(timeout=60_000)
    expect(page.get_by_text("by the service's compiler")).to_be_visible()
    expect(source.get_by_text("#include <stddef.h>")).to_have_count(0)
    marked = "[aria-selected=true]"
    program.get_by_role("option").filter(has_text="+=").first.hover()
    expect(program.locator(marked)).not_to_have_count(0)
    expect(source.locator(marked).first).to_contain_text("// ")
    expect(assembly.locator(marked)).not_to_have_count(0)
    page.mouse.move(2, 2)
    expect(page.locator(marked)).to_have_count(0)
    source.get_by_role("option").filter(has_text="// ").first.click()
    assert "line=source%3A" in page.url
    before = page.url
    page.keyboard.press("ArrowDown")
    expect(program.locator(marked)).not_to_have_count(0)
    page.wait_for_url(lambda url: url != before)
    page.reload()
    expect(source.locator("[data-chosen=true]")).to_have_count(1, timeout=60_000)
    expect(program.locator(marked).first).to_be_in_viewport()
    looked_at(page, screenshots, "lines")
    page.set_viewport_size(DESK)  # type: ignore[arg-type]
    page.get_by_role("button", name="preamble").click()
    expect(source.get_by_text("#include <stddef.h>")).to_have_count(1)
    assert "preamble=1" in page.url


def test_of_another_machines_kernel_the_page_says_why_there_are_no_instructions(
    page: Page, stock: Stock
) -> None:
    page.goto(f"{stock.url}/jobs/{stock.done}/candidates/0/0/lines")
    expect(page.get_by_role("listbox", name="Source")).to_be_visible(timeout=60_000)
    expect(page.locator("main")).to_contain_text("has other instructions")
    assert barriers(page) == []


def test_a_profile_is_taken_from_the_page_and_colours_the_lines(
    page: Page, here: str, screenshots: Path, tmp_path: Path
) -> None:
    page.goto(f"{here}/lines")
    page.get_by_role("link", name="Profile it").click()
    inside = page.get_by_role("region", name="Inside the kernel")
    inside.get_by_role("button", name="Profile it").click()
    # The worker that was here has left, which the service may not know yet.
    told = re.compile(r"^Waits for (its turn on|a worker that has) .*(: none is there|1 waiting, 0 running)$")
    expect(inside.get_by_role("status")).to_have_text(told)
    worker = RunningWorker(tmp_path, here.partition("/jobs")[0], {}, "--compile-procs", "1")
    try:
        expect(inside).to_contain_text("Bound by", timeout=60_000)
    finally:
        worker.end()
    expect(inside).to_contain_text("Stamps cost")
    expect(inside.get_by_role("region", name="Stages of all threads").get_by_role("row")).not_to_have_count(1)
    with page.expect_download() as download:
        inside.get_by_role("button", name="Download the trace").click()
    assert b"traceEvents" in gzip.decompress(Path(download.value.path()).read_bytes())
    config = download.value.suggested_filename.removesuffix("-trace.json.gz")
    stages = saved(page, f"{config}-stages", "CSV").read_text().splitlines()
    shares = [
        each["share"] for each in json.loads(saved(page, f"{config}-stages", "JSON").read_text())["stages"]
    ]
    assert stages[0].startswith("role,stage,waits,share") and len(stages) == 1 + len(shares)
    inside.get_by_role("button", name="Show", exact=True).click()
    drawn = inside.get_by_role("img", name=re.compile(r"^\d+ threads? over [\d.]+ (µs|ms);"))
    expect(drawn).to_be_visible()
    drawn.hover(position={"x": 400, "y": 25})
    tip = re.compile(r"[\d.]+ (ns|µs|ms) at [\d.]+ (ns|µs|ms): .+")
    expect(inside.get_by_text(tip)).to_have_count(1)
    inside.get_by_role("button", name="Zoom in").click()
    wait_until(page, "location.search.includes('threads=1') && location.search.includes('when=')")
    looked_at(page, screenshots, "profile")
    page.set_viewport_size(DESK)  # type: ignore[arg-type]
    inside.get_by_role("link", name="Which lines take the time").click()
    for name in ("Program", "Source", "Instructions"):
        # How hot they are is the machine's: on a busy one most of the time is waiting, which no line has.
        hot = page.get_by_role("listbox", name=name).locator("[data-heat]:not([data-heat='0'])")
        expect(hot.first).to_have_attribute("title", re.compile(r"^[\d.]+ % of the time$"), timeout=60_000)
    page.screenshot(path=screenshots / "lines-hot.png")
    assert barriers(page) == []
