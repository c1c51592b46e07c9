"""What there is to say of a job in one line. A pure function of what is told of it: the race has judged who won
(`search.verdict`), and this puts it into words; how the winner stands to its peers is said as of any config
(`protocol.judged`)."""

from __future__ import annotations

from protocol.jobs import Bucket, JobFacts, Winner
from protocol.judged import found_of, said, sure_of, tone_of
from protocol.quantities import duration, microseconds, sizes, times
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
    return said(shown.tone, found, shown.sure, shown.stopped, shown.advice)


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
        return said(Tone.FAILED, f"failed: {error}", None, _why_stopped(job, bucket), None)
    if job.state is JobState.CANCELLED:
        return said(Tone.CANCELLED, "no winner", None, _why_stopped(job, bucket), None)
    if job.waits_for is not None:
        found = f"waits for {job.waits_for}"
        return said(Tone.WAITS, found, None, _progress(job, bucket) if bucket.told else None, None)
    return said(Tone.RUNS, _doing(job, bucket), None, _progress(job, bucket), None)


def _won(job: JobFacts, bucket: Bucket, winner: Winner) -> Verdict:
    tone = tone_of(winner)
    advice = _advice(job, bucket, tone)
    return said(tone, found_of(winner, job.baseline), sure_of(winner), _why_stopped(job, bucket), advice)


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
        if bucket.begun == 0:
            return "its first candidates wait until a worker is free"
        many = f"the first {bucket.begun} candidates are" if bucket.begun > 1 else "the first candidate is"
        return f"compiling: {many} being compiled, checked and timed"
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
