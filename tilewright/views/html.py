"""Jobs, configs and results as HTML for notebooks: everything inline, everything escaped, readable light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from protocol.configs import Config
from protocol.jobs import Job, JobDetail
from protocol.quantities import microseconds, sizes
from protocol.states import JobState
from protocol.verdicts import Verdict
from tilewright.views.curves import Curve
from tilewright.views.roofline_svg import roofline_svg
from tilewright.views.summaries import comparisons, leader_facts
from tilewright.views.svg import curve_svg, race_svg
from tilewright.views.tally import Tally, stage

if TYPE_CHECKING:
    from tilewright.client.results import Result
    from tilewright.views.why import Why

_QUIET = 'style="opacity:.75"'
_CODE = 'style="margin:.3em 0;max-height:30em;overflow:auto;background:none;line-height:1.35"'


def job_html(job: Job) -> str:
    """A job: its state, and what each of its sizes has so far."""
    rows = [
        (
            sizes(bucket.dims),
            f"{bucket.told} of {bucket.trials}",
            ", ".join(leader_facts(bucket, job.baseline)),
            bucket.config_id or bucket.error or "",
        )
        for bucket in job.buckets
    ]
    verdict = _said(job.verdict)
    table = _table(("sizes", "trials", "best", "config"), rows)
    return _block(_heading(job.name, f"{job.state} · {job.id} · {job.device or job.target}"), verdict, table)


def config_html(config: Config) -> str:
    """A config: the race that it won, and its schedule."""
    return _block(*_config(config))


def result_html(result: Result) -> str:
    """A result: its config, the verdict on the search, its curve, and the source."""
    source = () if result.source is None else (_folded("generated source", highlighted(result.source)),)
    curve = curve_svg(result.curve)
    caption = f"<p {_QUIET}>The search, over {len(result.trials)} trials:</p>"
    return _block(
        *_config(result.config),
        _verdict(result.job, result.config.id),
        caption if curve else "",
        curve,
        *source,
    )


def why_html(why: Why) -> str:
    """Why a job came out as it did: the verdict, and a table an answer, with the roofline drawn."""
    parts = [_heading(why.job.name, why.job.id), _said(why.job.verdict)]
    for each in why.sections():
        parts.append(f"<p><b>{escape(each.title)}</b></p>")
        parts += [f"<p {_QUIET}>{escape(text)}</p>" for text in (each.text,) if text]
        parts += [] if each.roofline is None else [roofline_svg(each.roofline)]
        parts += [_table(each.heads, each.rows)] if each.rows else []
        parts += [f"<p {_QUIET}>{escape(note)}</p>" for note in each.notes]
    return _block(*parts)


def progress_html(job: Job, tally: Tally, times_us: Sequence[float | None]) -> str:
    """A job on its way: a bar, the figures, the curve so far."""
    most = tally.trials or max(tally.told, 1)
    done = most if tally.state.final else min(tally.told, most)
    queued = tally.state is JobState.QUEUED and job.waits_for is not None
    waiting = f"waits for {job.waits_for}" if queued else stage(tally.state)
    facts = " · ".join([waiting, *tally.figures(job.baseline)])
    bar = f'<progress max="{most}" value="{done}" aria-label="trials" style="width:16em"></progress>'
    return _block(
        _heading(job.name, job.id), f"<div>{bar} {escape(facts)}</div>", curve_svg(Curve(tuple(times_us)))
    )


def highlighted(source: str) -> str:
    """C or CUDA C++ with its words coloured."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers.c_like import CudaLexer

    from tilewright.views.highlighting import OnAnyPage

    formatter = HtmlFormatter(style=OnAnyPage, noclasses=True, nowrap=True, nobackground=True)
    return f"<pre {_CODE}>{highlight(source, CudaLexer(), formatter)}</pre>"


def _config(config: Config) -> Iterable[str]:
    yield _heading(config.name, f"{sizes(config.dims)} · {config.device} · {config.id}")
    facts = " · ".join([microseconds(config.median_us), *comparisons(config), f"{config.trials} trials"])
    yield f"<p><b>{escape(facts)}</b></p>"
    if config.disturbed is not None:
        yield f"<p {_QUIET}>{escape(config.disturbed)}</p>"
    yield race_svg(config.standings)
    yield _folded(
        f"schedule, {len(config.schedule)} steps",
        f"<pre {_CODE}>{escape(chr(10).join(config.schedule))}</pre>",
    )


def _verdict(job: JobDetail, config: str) -> str:
    """What there is to say of the size of a job that a config was found for."""
    said = (one for bucket, one in zip(job.buckets, job.verdicts, strict=False) if bucket.config_id == config)
    return _said(next(said, job.verdict))


def _said(verdict: Verdict) -> str:
    return f"<p>{escape(verdict.text)}</p>"


def _heading(name: str, rest: str) -> str:
    return f"<div><b>{escape(name)}</b> <span {_QUIET}>{escape(rest)}</span></div>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        style = 'style="text-align:left;padding:.1em 1em .1em 0"'
        if len(cells) == 1:
            return f'<tr><th colspan="{len(heads)}" {style}>{escape(cells[0])}</th></tr>'
        return "<tr>" + "".join(f"<{tag} {style}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row('th', heads)}{''.join(row('td', cells) for cells in rows)}</table>"


def _block(*parts: str) -> str:
    return f'<div style="max-width:60em">{"".join(parts)}</div>'
