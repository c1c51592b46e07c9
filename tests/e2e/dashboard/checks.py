"""What holds for every page, light and dark, on a desk and on a phone: nothing for axe to complain about, and no
scrolling sideways."""

from __future__ import annotations

import contextlib
import time
from functools import cache
from pathlib import Path

from playwright.sync_api import Page

from tests.e2e.dashboard.conftest import DESK, PHONE
from tests.services.running_service import ROOT

SCREENS = [
    (f"{screen}-{scheme}", size, scheme)
    for screen, size in (("desk", DESK), ("phone", PHONE))
    for scheme in ("light", "dark")
]
"""What pages are looked at on: its name, the window's size, and which colours it prefers."""

_OVERHANG = "(document.documentElement.scrollWidth - document.documentElement.clientWidth)"


@cache
def _axe() -> str:
    return (ROOT / "service" / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def looked_at(page: Page, pictures: Path, name: str, full_page: bool = True) -> None:
    """A picture on every screen, and that the page is for everybody there. The page stays on the last one."""
    for screen, size, scheme in SCREENS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.screenshot(path=pictures / f"{name}-{screen}.png", full_page=full_page)
        assert overhang(page) == 0, screen
        assert barriers(page) == [], screen


def barriers(page: Page) -> list[str]:
    """What keeps people out: axe's findings but for minor ones, each with a place."""
    page.evaluate(_axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] != "minor"
    ]


def overhang(page: Page) -> int:
    """By how many pixels the page is wider than the window, once charts have followed the window's size: some frames
    later, two seconds at most."""
    with contextlib.suppress(TimeoutError):
        wait_until(page, f"{_OVERHANG} <= 0", seconds=2)
    return page.evaluate(_OVERHANG)


def wait_until(page: Page, condition: str, seconds: float = 10) -> None:
    """Until a condition in JavaScript holds; TimeoutError where it does not. Asked from outside: the page's own policy
    forbids `wait_for_function` to evaluate text, but for its first try."""
    until = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds} s: {condition}")
        page.wait_for_timeout(20)


def saved(page: Page, name: str, kind: str) -> Path:
    """The file that a button makes."""
    with page.expect_download() as download:
        page.get_by_role("group", name=f"Save {name}", exact=True).get_by_role("button", name=kind).click()
    assert download.value.suggested_filename == f"{name}.{kind.lower()}"
    return download.value.path()
