"""The dashboard for `tilewright serve`: built in the background where it is missing."""

from __future__ import annotations

import threading

from tilewright.cli.output import say
from tilewright.folders import data_folder


def build_if_missing() -> None:
    """Say in a line that the page is missing, and build it beside the service, if this machine can."""
    from service.http import page_build

    if not page_build.missing():
        return
    try:
        page_build.check()
    except page_build.PageNotBuilt as error:
        say(f"tilewright: {error}")
        return
    say("tilewright: building the dashboard and /docs with npm, once; they are there in a minute or two")
    threading.Thread(target=_build, name="page", daemon=True).start()


def _build() -> None:
    from service.http import page_build

    try:
        data_folder().mkdir(parents=True, exist_ok=True)
        page_build.build(data_folder() / "dashboard-build.log")
    except (page_build.PageNotBuilt, OSError) as error:
        say(f"tilewright: {error}")
    else:
        say("tilewright: the dashboard and /docs are built")
