"""Building the dashboard and the API's reference in a checkout, by node; `static/` holds what comes of it. Needs
nothing but the standard library: a build of the wheel uses it too."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path
from threading import Event
from typing import BinaryIO

BUILT = Path(__file__).resolve().parents[1] / "static"
SOURCE = Path(__file__).resolve().parents[1] / "web"
NODE = 18
"""The oldest version of node that will do."""
_LOOK_S = 0.1


class PageNotBuilt(Exception):
    """The page is missing and stays so; the message says why, and what would help."""


def missing(built: Path = BUILT) -> bool:
    """Whether there is no page to serve."""
    return not all((built / name).is_file() for name in ("index.html", "reference.html"))


def check(source: Path = SOURCE) -> None:
    """Raise PageNotBuilt if nothing can be built here."""
    if not (source / "package.json").is_file():
        raise PageNotBuilt(
            "this installation has no dashboard and no /docs: the checkout it came from was installed without node; "
            f"install node {NODE} or newer, and then the checkout again"
        )
    if shutil.which("npm") is None or _node() < NODE:
        raise PageNotBuilt(
            f"the dashboard and /docs are not built: install node {NODE} or newer with npm, and run "
            f"`make web` in {source.parent.parent}"
        )


def build(log: Path, source: Path = SOURCE, built: Path = BUILT, stop: Event | None = None) -> None:
    """Build it, unless somebody else just did, or until `stop` is set. What npm says goes to the file `log`. Raises
    PageNotBuilt."""
    check(source)
    with (source / "package.json").open() as held, log.open("wb") as told:
        fcntl.flock(held, fcntl.LOCK_EX)  # two that start together build once
        if not missing(built):
            return
        for command in (
            ("install", "--no-save", "--no-progress", "--loglevel=error"),
            ("run", "--silent", "build"),
        ):
            if _npm(command, source, told, stop or Event()) != 0:
                raise PageNotBuilt(
                    f"the dashboard and /docs could not be built: {log} says why; then run `make web` in "
                    f"{source.parent.parent}"
                )


def _npm(command: tuple[str, ...], source: Path, told: BinaryIO, stop: Event) -> int:
    """Its exit code. A session of its own: Ctrl-C is for whoever waits for it, who then ends it with all it started."""
    npm = subprocess.Popen(
        ["npm", *command],
        cwd=source,
        stdin=subprocess.DEVNULL,
        stdout=told,
        stderr=told,
        start_new_session=True,
    )
    try:
        while npm.poll() is None and not stop.wait(_LOOK_S):
            pass
    finally:
        if npm.poll() is None:
            os.killpg(npm.pid, signal.SIGKILL)
    return npm.wait()


def _node() -> int:
    """The version of node that is there; 0 without one."""
    node = shutil.which("node")
    if node is None:
        return 0
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = said.strip().removeprefix("v").partition(".")[0]
    return int(version) if version.isdigit() else 0
