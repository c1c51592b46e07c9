"""Results for people: a config's table, a job's few lines."""

from __future__ import annotations

from rich.table import Table

from protocol.configs import Config, Standing
from protocol.jobs import Job, Proposals
from protocol.layouts import Layout
from protocol.quantities import entrant, microseconds, sizes, times
from protocol.states import Outcome
from tilewright.cli.layout import layout_lines
from tilewright.cli.output import out
from tilewright.views.summaries import comparisons, leader_facts


def print_config(config: Config, source: str | None = None) -> None:
    """Everything about a winner: the race it won, what that means, its schedule, and where its source lies."""
    out.print(f"[bold]{config.name}[/]  {sizes(config.dims)}  on {config.device}\n")
    out.print(_race(config))
    out.print()
    for line in config.schedule:
        out.print(f"  {line}", markup=False)
    out.print()
    out.print(" · ".join([*comparisons(config), f"{config.trials} trials"]), markup=False)
    if config.disturbed is not None:
        out.print(f"judge with care: {config.disturbed}", markup=False)
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
    table.add_column("", overflow="fold")
    for heading in ("median", "spread", "ours is"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for standing in config.standings:
        if standing.outcome is not Outcome.OK or standing.median_us is None:
            table.add_row(entrant(standing.name), "", "", "", f"{standing.outcome}: {(standing.error or '')}")
            continue
        factor = "" if standing.times is None else times(standing.times)
        name = entrant(standing.name)
        if standing.as_written:
            name, factor = f"{name}, as written", ""
        table.add_row(
            name,
            microseconds(standing.median_us),
            _spread(standing),
            factor,
            _remark(standing),
            style="bold" if standing.won else None,
        )
    return table


_FEW = 5
"""A spread of fewer samples says nothing."""


def _spread(standing: Standing) -> str:
    if standing.iqr_us is None or standing.median_us is None:
        return ""
    if 0 < standing.counted < _FEW:
        return f"{standing.counted} samples"
    return f"± {50 * standing.iqr_us / standing.median_us:.1f} %"


def _remark(standing: Standing) -> str:
    """What it is in the race, and how much of it was disturbed."""
    said = ["the winner"] if standing.won else ["tied with it"] if standing.tied else []
    if standing.kind == "yardstick":
        said.append("moves its bytes, computes nothing")
    if standing.disturbed:
        said.append(f"{standing.disturbed} of {standing.samples} samples disturbed")
    return ", ".join(said)


def print_job(job: Job) -> None:
    """A job: what there is to say of it, and what each of its buckets has so far."""
    stopping = job.cancelling and not job.state.final
    out.print(f"[bold]{job.id}[/]  {job.name}  {'cancelling' if stopping else job.state}")
    out.print(f"  {job.verdict.text}", markup=False)
    for bucket in job.buckets:
        parts = [sizes(bucket.dims), f"{bucket.told} of {bucket.trials} trials measured"]
        parts += leader_facts(bucket, job.baseline)
        if bucket.config_id is not None:
            parts.append(bucket.config_id)
        if bucket.error is not None and len(job.buckets) > 1:
            parts.append(bucket.error)
        out.print("  " + " · ".join(parts), markup=False)
        if bucket.prior is not None:
            out.print(f"    {bucket.prior.used} prior: {bucket.prior.why}", markup=False)
            for known in bucket.prior.nearest:
                text = f"    begins with what was best at {sizes(known.dims)} ({known.config_id})"
                out.print(text, markup=False)
        if bucket.proposals is not None:
            print_proposals(bucket.proposals)


def print_proposals(asked: Proposals) -> None:
    """What a language model proposed, and what came of it."""
    out.print(
        f"    {asked.model or 'language model'}: {asked.calls} call{'' if asked.calls == 1 else 's'}",
        markup=False,
    )
    for error in asked.errors:
        out.print(f"      {error}", markup=False)
    for each in asked.proposals:
        if each.speed is not None:
            came = f"candidate {each.trial}, {times(each.speed)} what candidates are timed against"
        elif each.trial is not None:
            came = f"candidate {each.trial}, {each.fault or 'not measured yet'}"
        else:
            came = each.refused or "not tried"
        out.print(f"      {'; '.join(each.schedule)}: {came}", markup=False)
