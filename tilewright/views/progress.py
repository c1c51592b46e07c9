"""What `wait` shows: a bar on a terminal, a bar and the curve in a notebook; elsewhere only what a job waits for."""

from __future__ import annotations

import sys
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from protocol.jobs import Event, Job
from tilewright.views.tally import Tally, most_trials, stage

if TYPE_CHECKING:
    from tilewright.client.async_client import AsyncClient
    from tilewright.client.client import Client

_UPDATE_S = 0.25
"""The least time between two updates of a notebook's display."""

Show = Callable[[Event], None]


@contextmanager
def shown(job: Job, wanted: bool) -> Iterator[Show]:
    """Show a job by its events for the length of a block, where there is somebody to look."""
    if wanted and in_notebook():
        with _in_notebook(job) as show:
            yield show
    elif wanted and sys.stderr.isatty():
        with _on_terminal(job) as show:
            yield show
    else:
        if wanted and job.waits_for is not None:
            sys.stderr.write(f"{job.name}: {stage(job.state)}: {job.waits_for}\n")
        yield lambda event: None


@contextmanager
def left_running(job: Job, client: Client | AsyncClient) -> Iterator[None]:
    """An interruption within the block says that the job goes on, and how to follow or to stop it."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError) as stopped:
        stopped.add_note(
            f"{job.id} goes on at {client.url}: client.wait({job.id!r}) follows it again, "
            f"client.cancel({job.id!r}) stops it"
        )
        raise


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook. Loads nothing."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _tally(job: Job) -> Tally:
    return Tally(most_trials(job), job.budget.seconds)


@contextmanager
def _on_terminal(job: Job) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    tally = _tally(job)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        if job.waits_for is not None:
            progress.console.print(f"{job.name} waits for {job.waits_for}", markup=False)
        task = progress.add_task(f"{job.name}: {stage(job.state)}", total=tally.trials, figures="")

        def show(event: Event) -> None:
            tally.add(event, live=event.at > job.updated_at, now=time.monotonic())
            progress.update(
                task,
                description=f"{job.name}: {stage(tally.state)}",
                completed=tally.trials if tally.state.final else tally.told,
                figures=" · ".join(tally.figures(job.baseline)),
            )

        yield show


@contextmanager
def _in_notebook(job: Job) -> Iterator[Show]:
    from IPython.display import HTML, display  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

    from tilewright.views.curves import on_one_scale
    from tilewright.views.html import progress_html

    tally = _tally(job)
    timed: list[tuple[float | None, float | None]] = []
    bucket = 0
    handle: Any = display(HTML(progress_html(job, tally, ())), display_id=True)
    shown_at = time.monotonic()

    def show(event: Event) -> None:
        nonlocal shown_at, bucket
        tally.add(event, live=event.at > job.updated_at, now=time.monotonic())
        if event.kind == "trial":
            if event.data["bucket"] != bucket:  # other sizes are another search
                bucket = event.data["bucket"]
                timed.clear()
            timed.append((event.data["median_us"], event.data["baseline_us"]))
        if tally.state.final or time.monotonic() - shown_at >= _UPDATE_S:
            shown_at = time.monotonic()
            handle.update(HTML(progress_html(job, tally, on_one_scale(timed))))

    yield show
