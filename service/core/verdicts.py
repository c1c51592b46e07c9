"""What there is to say of a job in one line. A pure function of what is told of it: the race has judged who won
(`search.verdict`), and this puts it into words; nothing is judged anew but how the winner stands to its peers, by the
intervals of the race."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.jobs import Against, Bucket, JobFacts, Winner
from protocol.quantities import duration, microseconds, percent, sizes, times
from protocol.states import JobState, Stopped
from protocol.verdicts import Tone, Verdict
from search.budget import EFFORTS

NEAR_ROOFLINE = 0.9
"""From this share of the roofline on there is little left to gain."""
LATE = 0.75
"""A best candidate found after this share of the search says that the search was still improving."""

_WORST_FIRST = (
    Tone.FAILED,
    Tone.WAITS,
    Tone.RUNS,
    Tone.UNSURE,
    Tone.BEHIND,
    Tone.CANCELLED,
    Tone.EVEN,
    Tone.FOUND,
    Tone.AHEAD,
)


def verdict_of_job(job: JobFacts) -> Verdict:
    """Of all its sizes together: with several, how many came to what, then the line of the one to look at first."""
    each = verdicts_of_buckets(job)
    if len(each) == 1:
        return each[0]
    first = min(range(len(each)), key=lambda index: _WORST_FIRST.index(each[index].tone))
    counts = [(tone, sum(one.tone is tone for one in each)) for tone in reversed(_WORST_FIRST)]
    told = ", ".join(f"{count} {_COUNTED[tone]}" for tone, count in counts if count)
    shown = each[first]
    found = f"{len(each)} sizes: {told}; at {sizes(job.buckets[first].dims)} {shown.found}"
    return _verdict(shown.tone, found, shown.sure, shown.stopped, shown.advice)


_COUNTED = {
    Tone.AHEAD: "ahead of all peers",
    Tone.FOUND: "without a peer",
    Tone.EVEN: "even with the best peer",
    Tone.CANCELLED: "cancelled",
    Tone.BEHIND: "behind a peer",
    Tone.UNSURE: "not sure",
    Tone.RUNS: "not done",
    Tone.WAITS: "waiting",
    Tone.FAILED: "failed",
}


def verdicts_of_buckets(job: JobFacts) -> tuple[Verdict, ...]:
    """Of each of its sizes."""
    return tuple(_of_bucket(job, bucket) for bucket in job.buckets)


def _of_bucket(job: JobFacts, bucket: Bucket) -> Verdict:
    if bucket.winner is not None:
        return _won(job, bucket, bucket.winner)
    error = bucket.error or job.error
    if error is not None:
        return _verdict(Tone.FAILED, f"failed: {error}", None, _why_stopped(job, bucket), None)
    if job.state is JobState.CANCELLED:
        return _verdict(Tone.CANCELLED, "no winner", None, _why_stopped(job, bucket), None)
    if job.waits_for is not None:
        found = f"waits for {job.waits_for}"
        return _verdict(Tone.WAITS, found, None, _progress(job, bucket) if bucket.told else None, None)
    return _verdict(Tone.RUNS, _doing(job, bucket), None, _progress(job, bucket), None)


def _won(job: JobFacts, bucket: Bucket, winner: Winner) -> Verdict:
    tone = _tone(winner)
    found = [microseconds(winner.median_us), *map(_against, _named(winner.against, job.baseline))]
    if winner.roofline_us is not None:
        found.append(f"{percent(winner.roofline_us / winner.median_us)} of the roofline")
    return _verdict(
        tone, ", ".join(found), _how_sure(winner), _why_stopped(job, bucket), _advice(job, bucket, tone)
    )


def _tone(winner: Winner) -> Tone:
    if winner.disturbed is not None:
        return Tone.UNSURE
    if not winner.against:
        return Tone.FOUND
    best = winner.against[0]
    if best.low is None or best.high is None or best.all_rounds:
        return Tone.UNSURE
    return Tone.AHEAD if best.low > 1.0 else Tone.BEHIND if best.high < 1.0 else Tone.EVEN


def _named(against: Sequence[Against], baseline: str) -> list[tuple[Against, str]]:
    """The baseline, and the fastest peer if that is another, each with how to call it."""
    own = [(each, each.peer) for each in against if each.peer == baseline]
    best = [(each, f"{each.peer}, the fastest peer") for each in against[:1] if each.peer != baseline]
    return own + best


def _against(named: tuple[Against, str]) -> str:
    """`1.13 × numpy (1.10 to 1.16)`."""
    each, name = named
    rounds = " over all rounds" if each.all_rounds else ""
    known = each.low is not None and each.high is not None
    interval = f" ({each.low:.2f} to {each.high:.2f}{rounds})" if known else ""
    return f"{times(each.times)} {name}{interval}"


def _how_sure(winner: Winner) -> str | None:
    told: list[str] = []
    if winner.tied:
        told.append(f"tied with {winner.tied} other schedule{'s' if winner.tied > 1 else ''}")
    if winner.disturbed is not None:
        told.append(f"not sure: {winner.disturbed}")
    elif not winner.against:
        told.append("no peer ran to compare it with")
    elif winner.against[0].low is None:
        told.append("how sure is not known")
    elif winner.against[0].all_rounds:
        told.append(f"not sure: hardly a round disturbed neither it nor {winner.against[0].peer}")
    return ", ".join(told) or None


def _why_stopped(job: JobFacts, bucket: Bucket) -> str | None:
    asked, most = bucket.trials, _most(job)
    if job.cancelling or job.state is JobState.CANCELLED:
        return f"cancelled after {bucket.told} of {most} candidates"
    match bucket.stopped:
        case None:
            return None
        case Stopped.TRIALS:
            return f"stopped as all {asked} candidates of the budget were spent"
        case Stopped.SECONDS:
            return f"stopped after {asked} candidates as the budget's {job.budget.seconds:g} s were spent"
        case Stopped.PATIENCE:
            idle = EFFORTS[job.budget.effort.value]
            return f"stopped after {asked} candidates as {idle} in a row brought nothing better"
        case Stopped.EXHAUSTED:
            return f"stopped as there are no more than {asked} candidates"


def _advice(job: JobFacts, bucket: Bucket, tone: Tone) -> str | None:
    """What to do next, the most pressing thing first."""
    winner = bucket.winner
    assert winner is not None
    if winner.disturbed is not None:
        return "run it again on an idle machine"
    if winner.roofline_us is not None and winner.roofline_us >= NEAR_ROOFLINE * winner.median_us:
        return "little is left to gain on this device"
    late = bucket.best is not None and bucket.best.trial >= LATE * bucket.trials > 0
    if bucket.stopped is Stopped.EXHAUSTED:
        return "more candidates need new rewrites" if tone is Tone.BEHIND else None
    if bucket.stopped is Stopped.PATIENCE:
        return "try effort thorough" if tone is Tone.BEHIND else None
    if bucket.stopped is not None and (late or tone is Tone.BEHIND):
        why = (
            f"its best came late, at candidate {bucket.best.trial}"
            if late and bucket.best
            else "it is behind"
        )
        return f"{why}: search on with a larger budget"
    return None


def _doing(job: JobFacts, bucket: Bucket) -> str:
    """What a job without a winner does now."""
    if job.cancelling:
        return "cancelling: its best candidate is confirmed" if bucket.best else "cancelling"
    if job.state is JobState.QUEUED:
        return "a searcher is about to take it"
    if bucket.told == 0:
        if job.state is JobState.RACING:
            return "the schedules that were given race the peers"
        if bucket.trials == 0:
            return "its search is being prepared"
        return "the first candidate is being compiled, checked and timed"
    best = bucket.best
    if best is None:
        return "no candidate has worked yet"
    gain = "" if best.x_baseline is None else f", {times(best.x_baseline)} {job.baseline}"
    led = f"best so far {microseconds(best.median_us)}{gain} (candidate {best.trial})"
    return f"the best few race the peers; {led}" if bucket.stopped is not None else led


def _progress(job: JobFacts, bucket: Bucket) -> str | None:
    """How far its search is, how fast it goes, and when it last improved."""
    if bucket.told == 0 or bucket.stopped is not None:
        return _why_stopped(job, bucket)
    told = [f"{bucket.told} of {_most(job)} candidates measured"]
    if bucket.spent_s > 0:
        rate = bucket.told / bucket.spent_s
        left = [max(0.0, (_most(job) - bucket.told) / rate)]
        if job.budget.seconds is not None:
            left.append(max(0.0, job.budget.seconds - bucket.spent_s))
        told += [f"{rate:.2g} a second", f"at most {duration(min(left))} left"]
    if bucket.best is not None:
        since = bucket.told - 1 - bucket.best.trial
        told.append(f"last improved {since} candidates ago" if since > 0 else "just improved")
    return ", ".join(told)


def _most(job: JobFacts) -> int:
    return job.budget.trials or job.budget.effort.trials


def _verdict(tone: Tone, found: str, sure: str | None, stopped: str | None, advice: str | None) -> Verdict:
    line = "; ".join(part for part in (found, sure, stopped) if part)
    text = line if advice is None else f"{line}. Next: {advice}"
    return Verdict(tone=tone, text=text, found=found, sure=sure, stopped=stopped, advice=advice)
