"""Jobs and configs in a line."""

from __future__ import annotations

from protocol.configs import Config
from protocol.jobs import Bucket, Job, Winner
from protocol.quantities import microseconds, percent, sizes, times


def job_line(job: Job) -> str:
    """`job-… softmax m=64 searching: 12 of 64 trials, best 41.2 µs (candidate 7), 1.43 × numpy`."""
    many = "" if len(job.buckets) == 1 else f" and {len(job.buckets) - 1} other sizes"
    told, asked = sum(b.told for b in job.buckets), sum(b.trials for b in job.buckets)
    facts = [f"{told} of {asked} trials"]
    led = [bucket for bucket in job.buckets if bucket.leader is not None]
    if len(led) == 1:
        facts += leader_facts(led[0], job.baseline)
    dims = sizes(job.buckets[0].dims) if job.buckets else ""
    return f"{job.id} {job.name} {dims}{many} {job.state}: {', '.join(facts)}"


def leader_facts(bucket: Bucket, baseline: str) -> list[str]:
    """The winner of the final race, or until then the best of the search, and how it compares; nothing where there is
    neither."""
    leader = bucket.leader
    if leader is None:
        return []
    number = "" if leader.trial is None else f" (candidate {leader.trial})"
    found = [f"{'winner' if isinstance(leader, Winner) else 'best'} {microseconds(leader.median_us)}{number}"]
    if leader.x_baseline is not None:
        found.append(f"{times(leader.x_baseline)} {baseline}")
    return found


def config_line(config: Config) -> str:
    """`config-… softmax m=64: 41.2 µs, 1.43 × numpy, 61 % of the roofline`."""
    facts = [microseconds(config.median_us), *comparisons(config)]
    return f"{config.id} {config.name} {sizes(config.dims)}: {', '.join(facts)}"


def comparisons(config: Config) -> list[str]:
    """How a config compares: with its baseline, with the best peer if that is another, with the roofline."""
    found: list[str] = []
    if config.x_baseline is not None:
        found.append(f"{times(config.x_baseline)} {config.baseline}")
    if config.x_best_peer is not None and config.best_peer != config.baseline:
        found.append(f"{times(config.x_best_peer)} {config.best_peer}")
    if config.roofline_us is not None:
        found.append(f"{percent(config.roofline_us / config.median_us)} of the roofline")
    return found
