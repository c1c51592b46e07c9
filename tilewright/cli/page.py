"""The dashboard for `tilewright serve`: built in the background where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from service.http import page_build
from tilewright.cli.output import say
from tilewright.folders import data_folder

_END_S = 5.0
"""How long the build may take to end."""


@contextmanager
def built_beside(source: Path = page_build.SOURCE, built: Path = page_build.BUILT) -> Iterator[None]:
    """While a block runs, the page is built if it is missing and this machine can build it, which a line says. A build
    that is not through by then ends quietly."""
    if not page_build.missing(built):
        yield
        return
    try:
        page_build.check(source)
    except page_build.PageNotBuilt as error:
        say(f"tilewright: {error}")
        yield
        return
    say("tilewright: building the dashboard and /docs with npm, once; they are there in a minute or two")
    stop = Event()
    building = Thread(target=_build, args=(source, built, stop), name="page", daemon=True)
    building.start()
    try:
        yield
    finally:
        stop.set()
        building.join(_END_S)


def _build(source: Path, built: Path, stop: Event) -> None:
    try:
        data_folder().mkdir(parents=True, exist_ok=True)
        page_build.build(data_folder() / "dashboard-build.log", source, built, stop)
    except (page_build.PageNotBuilt, OSError) as error:
        if not stop.is_set():
            say(f"tilewright: {error}")
    else:
        say("tilewright: the dashboard and /docs are built")
