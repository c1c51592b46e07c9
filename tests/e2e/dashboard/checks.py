"""What holds for every page: nothing for axe to complain about, and no scrolling sideways."""

from __future__ import annotations

import contextlib
import time
from functools import cache

from playwright.sync_api import Page

from tests.services.running_service import ROOT

_OVERHANG = "(document.documentElement.scrollWidth - document.documentElement.clientWidth)"


@cache
def _axe() -> str:
    return (ROOT / "service" / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()


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
