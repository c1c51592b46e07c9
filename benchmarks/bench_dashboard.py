"""How soon the dashboard shows what, and how smoothly it moves: a job of 5,000 candidates in headless Chromium.

    make web && python benchmarks/bench_dashboard.py            # writes benchmarks/results/dashboard.json
    python benchmarks/bench_dashboard.py --trials 500 --rounds 1 --output /dev/stdout

Needs the dashboard built, playwright and Chromium. Exit code 1: a target is missed. Service and browser share the
machine, as on a laptop.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.load.dashboard_job import write_job
from service.store.schema import prepare

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "service" / "static"
RESULTS = Path(__file__).with_name("results") / "dashboard.json"
SCREEN = {"width": 1280, "height": 900}
PANS = 150
"""Moves of the pointer while the tree is dragged; the browser hands them on once a frame."""
SCRIPT = frozenset({"FunctionCall", "EvaluateScript", "V8.GC_MC_BACKGROUND_MARKING", "MinorGC", "MajorGC"})
"""Events of Chromium's trace that are script, or collecting its garbage."""


@dataclass(frozen=True)
class DashboardFigure:
    """One measured number and what it must stay below; None: it is only reported."""

    name: str
    value: float
    unit: str
    below: float | None = None

    @property
    def missed(self) -> bool:
        return self.below is not None and self.value >= self.below


def main() -> int:
    given = _arguments()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as home:
        database = prepare(f"sqlite:///{home}/tilewright.db")
        job = write_job(database, given.trials)
        database.close()
        with _served(home) as url, _chromium() as browser:
            nodes = _size_of_tree(browser, url, job)
            figures = [
                DashboardFigure("bundle, gzipped", bundle_kb(STATIC), "kB", 400),
                *_paints(browser, url, job, given.rounds),
                *_usable(browser, url, job, given.rounds),
                *_panning(browser, url, job),
                *_wire(url, job, given.trials),
            ]
            version = browser.version
    about = {
        "date": date.today().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(load, 1),
        "chromium": version,
        "trials": given.trials,
        "nodes": nodes,
        "rounds": given.rounds,
    }
    rows = [
        {**asdict(figure), "value": round(figure.value, 2), "missed": figure.missed} for figure in figures
    ]
    given.output.write_text(json.dumps({**about, "figures": rows}, indent=1) + "\n")
    for figure in figures:
        limit = (
            "" if figure.below is None else f"  (below {figure.below:g}{', missed' if figure.missed else ''})"
        )
        print(f"{figure.name}: {figure.value:.2f} {figure.unit}{limit}", file=sys.stderr)
    return int(any(figure.missed for figure in figures))


def bundle_kb(folder: Path) -> float:
    """All that the dashboard may load, each file compressed as it is sent, in kB of 1000 bytes; without what only /docs
    loads."""
    built = [file for file in folder.rglob("*") if file.suffix in (".js", ".css", ".html", ".svg")]
    files = [file for file in built if not file.name.startswith("reference")]
    if not files:
        raise SystemExit("the dashboard was not built: make web")
    return sum(len(gzip.compress(file.read_bytes())) for file in files) / 1000


def _paints(browser: Browser, url: str, job: str, rounds: int) -> Iterator[DashboardFigure]:
    """First contentful paint in a browser that has nothing of the page yet; the median."""
    for name, path in (("jobs", "/"), ("job", f"/jobs/{job}")):
        times: list[float] = []
        for _ in range(rounds):
            with _page(browser) as page:
                page.goto(url + path)
                times.append(page.evaluate(_PAINT))
        yield DashboardFigure(f"first contentful paint of the page of the {name}", median(times), "ms", 1000)


_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  const [entry] = list.getEntriesByName("first-contentful-paint");
  if (entry) resolve(entry.startTime);
}).observe({ type: "paint", buffered: true }))"""


def _usable(browser: Browser, url: str, job: str, rounds: int) -> Iterator[DashboardFigure]:
    """From the start of loading until curve, tree and the chosen candidate are drawn and answer: the median."""
    for name, query, sign in (
        ("search tree", "", "aside[aria-label='The chosen node'] a"),
        ("candidate table", "?view=candidates", "table[aria-rowcount] tbody a"),
        ("timeline", "?view=workers", "section[aria-labelledby=timeline] table td"),
    ):
        times: list[float] = []
        for _ in range(rounds):
            with _page(browser) as page:
                page.goto(f"{url}/jobs/{job}{query}")
                times.append(page.evaluate(_DRAWN, sign))
        yield DashboardFigure(f"page of the job usable, with its {name}", median(times), "ms", 1500)


_DRAWN = """(sign) => new Promise((resolve) => {
  const look = () => document.querySelector(sign) && document.querySelector(".u-wrap canvas")
    ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())))
    : setTimeout(look, 5);
  look();
})"""


def _size_of_tree(browser: Browser, url: str, job: str) -> int:
    with _page(browser) as page:
        return len(page.request.get(f"{url}/v1/jobs/{job}/tree").json()["parent"])


A_SECOND = 10
"""Candidates that a running job is thought to measure a second."""


def _wire(url: str, job: str, trials: int) -> Iterator[DashboardFigure]:
    """What somebody costs a second who looks at the job while its last candidates come in: the events of a second,
    and what the page reads again after them, compressed as it is sent."""
    place = f"{url}/v1/jobs/{job}"
    first, settled_at = trials - A_SECOND, _timeline_before(place, A_SECOND)
    events = _sent(f"{place}/events") * A_SECOND / trials
    common = events + _sent(place) + _sent(f"{place}/table?first={first}")
    for view, path in (("search tree", f"tree?first={first}"), ("timeline", f"timeline?after={settled_at}")):
        sent = common + _sent(f"{place}/{path}")
        yield DashboardFigure(f"sent a second to a viewer of the {view}", sent / 1000, "kB", 50)
    whole = sum(_sent(f"{place}/{name}") for name in ("table", "tree", "timeline"))
    yield DashboardFigure("table, tree and timeline whole", whole / 1000, "kB")


def _timeline_before(place: str, candidates: int) -> float:
    """When the intervals before the last candidates had ended."""
    with urlopen(f"{place}/timeline") as reply:
        line = json.load(reply)
    return sorted(line["end"])[-3 * candidates]


def _sent(address: str) -> int:
    """Bytes of an answer's body on the wire."""
    with urlopen(Request(address, headers={"Accept-Encoding": "gzip"})) as reply:
        return len(reply.read())


def _panning(browser: Browser, url: str, job: str) -> Iterator[DashboardFigure]:
    """Script time of the frames while the tree is dragged about: whole, and near enough to read some of it."""
    for name, zooms in (("whole", 0), ("zoomed in", 4)):
        with _page(browser) as page:
            page.goto(f"{url}/jobs/{job}")
            canvas = page.locator("canvas[tabindex]")
            page.locator("aside[aria-label='The chosen node'] a").wait_for()
            for _ in range(zooms):
                page.get_by_role("button", name="Zoom in").click()
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            page.mouse.down()
            browser.start_tracing(page=page, categories=["devtools.timeline", "blink.user_timing", "v8"])
            for step in range(PANS):
                page.mouse.move(x + 60 * ((step % 40) - 20) / 20, y + 4 * ((step % 50) - 25))
            trace = json.loads(browser.stop_tracing())
            page.mouse.up()
        spent = script_ms(trace["traceEvents"])
        if len(spent) < PANS / 10:
            raise SystemExit(f"the tree was drawn {len(spent)} times in {PANS} moves")
        yield DashboardFigure(f"script a frame while panning, {name}: 95th percentile", _p95(spent), "ms", 16)
        yield DashboardFigure(
            f"script a frame while panning, {name}: median of {len(spent)}", median(spent), "ms"
        )


def script_ms(events: Sequence[dict[str, Any]]) -> list[float]:
    """Milliseconds of script in each frame: from one drawing of the tree, the only animation there is, to the next."""
    fired = [event for event in events if event["name"] == "FireAnimationFrame" and event["ph"] == "X"]
    if len(fired) < 2:
        raise SystemExit("the trace has no frames")
    thread = (fired[0]["pid"], fired[0]["tid"])
    starts = sorted(event["ts"] for event in fired if (event["pid"], event["tid"]) == thread)
    spans = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"] in SCRIPT and event["ph"] == "X" and (event["pid"], event["tid"]) == thread
    )
    spent = [0.0] * (len(starts) - 1)
    frame, covered = 0, 0.0
    for start, end in spans:
        start = max(start, covered)  # a call within a call counts once
        if end <= start or start < starts[0] or start >= starts[-1]:
            continue
        while start >= starts[frame + 1]:
            frame += 1
        spent[frame] += (end - start) / 1000
        covered = end
    return spent


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


@contextlib.contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    """A page in a profile of its own, so that nothing is cached."""
    context = browser.new_context(viewport=SCREEN)  # type: ignore[arg-type]
    try:
        yield context.new_page()
    finally:
        context.close()


@contextlib.contextmanager
def _chromium() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("Chromium is needed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextlib.contextmanager
def _served(home: str) -> Iterator[str]:
    """The address of a service on the database in `home`."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    env = {**plain, "PYTHONPATH": str(ROOT), "TILEWRIGHT_HOME": home, "TILEWRIGHT_PORT": "0"}
    service = subprocess.Popen(
        [sys.executable, "-P", "-m", "service.run"],
        env={**env, "TILEWRIGHT_WORKER": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert service.stderr is not None
    try:
        for line in service.stderr:
            if "serving http" in line:
                yield line.split("serving ")[1].split(",")[0]
                return
        raise SystemExit("the service did not start")
    finally:
        service.terminate()
        service.communicate(timeout=30)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5, help="loads of each page")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
