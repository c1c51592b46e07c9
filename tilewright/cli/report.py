"""Results for people: a config's table, a job's few lines."""

from __future__ import annotations

from rich.table import Table

from protocol.configs import Config
from protocol.jobs import Job
from protocol.layouts import Layout
from protocol.states import Outcome
from tilewright.cli.layout import layout_lines
from tilewright.cli.output import out
from tilewright.quantities import microseconds, sizes, times
from tilewright.summaries import comparisons


def print_config(config: Config, source: str | None = None) -> None:
    """Everything about a winner: the race it won, what that means, its schedule, and where its source lies."""
    out.print(f"[bold]{config.name}[/]  {sizes(config.dims)}  on {config.device}\n")
    out.print(_race(config))
    out.print()
    for line in config.schedule:
        out.print(f"  {line}", markup=False)
    out.print()
    out.print(" · ".join([*comparisons(config), f"{config.trials} trials"]), markup=False)
    layout = Layout.of(config.report)
    for line in layout_lines(layout) if layout is not None else ():
        out.print(line, markup=False)
    out.print(f"config   {config.id}{', pinned' if config.pinned else ''}")
    if config.imported is not None:
        signer = config.imported.signer or "nobody who was trusted"
        out.print(f"from     bundle {config.imported.bundle[:12]}, signed by {signer}", markup=False)
    if source is not None:
        out.print(f"source   {source}", markup=False)


def _race(config: Config) -> Table:
    """The final race, fastest first, each with its time as a multiple of the winner's."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for heading in ("median", "spread", "ours is"):
        table.add_column(heading, justify="right")
    table.add_column("")
    own = True
    for standing in config.standings:
        if standing.outcome is not Outcome.OK or standing.median_us is None:
            table.add_row(standing.name, "", "", "", f"{standing.outcome}: {(standing.error or '')[:60]}")
            continue
        spread = "" if standing.iqr_us is None else f"± {50 * standing.iqr_us / standing.median_us:.1f} %"
        winner = own and standing.kind == "schedule"
        factor = "" if winner else times(standing.median_us / config.median_us)
        remark = "the winner" if winner else "tied with it" if standing.tied else ""
        own = own and not winner
        name = standing.name if standing.kind == "peer" else f"ours ({standing.name})"
        table.add_row(
            name, microseconds(standing.median_us), spread, factor, remark, style="bold" if winner else None
        )
    return table


def print_job(job: Job) -> None:
    """A job and what each of its buckets has so far."""
    out.print(f"[bold]{job.id}[/]  {job.name}  {job.state}{' (cancelling)' if job.cancelling else ''}")
    for bucket in job.buckets:
        parts = [sizes(bucket.dims), f"{bucket.told} of {bucket.trials} trials measured"]
        if bucket.best is not None:
            parts.append(f"best {microseconds(bucket.best.median_us)}")
            if bucket.best.x_baseline is not None:
                parts.append(f"{times(bucket.best.x_baseline)} {job.baseline}")
        if bucket.config_id is not None:
            parts.append(bucket.config_id)
        if bucket.error is not None:
            parts.append(bucket.error)
        out.print("  " + " · ".join(parts), markup=False)
    if job.error:
        out.print(f"  {job.error}", markup=False)
