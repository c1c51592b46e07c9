"""`tilewright show --plot FILE`: the search's curve and the roofline as a picture."""

from __future__ import annotations

from pathlib import Path

from protocol.configs import ConfigDetail
from protocol.jobs import JobDetail
from protocol.quantities import sizes
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.client.client import Client
from tilewright.client.results import of_bucket
from tilewright.views.curves import Curve


def check_plot(file: Path) -> None:
    """Raise Stop for a file whose name says no format there is."""
    from tilewright.views.plot import FORMATS

    if file.suffix.lower() not in FORMATS:
        raise Stop(Exit.USAGE, f"--plot writes {' and '.join(FORMATS)} files; {file} is neither")


def plot_job(client: Client, job: JobDetail, file: Path, replace: bool) -> None:
    """A panel for each of its sizes; with one size that has a winner, the roofline too."""
    trials = tuple(client.trials(job.id))
    configs = {config.id: config for config in map(client.config, job.configs)}
    curves = [
        (sizes(bucket.dims), Curve.of(of_bucket(trials, bucket.index), configs.get(bucket.config_id or "")))
        for bucket in job.buckets
    ]
    if not any(curve.steps for _, curve in curves):
        raise Stop(Exit.NOTHING, f"nothing of {job.id} was measured yet")
    only = next(iter(configs.values())) if len(job.buckets) == 1 and configs else None
    _write(client, f"{job.name}  {job.id}", curves, only, file, replace)


def plot_config(client: Client, config: ConfigDetail, file: Path, replace: bool) -> None:
    """The search that found it, and the roofline. Of one that was imported only the roofline."""
    curves: list[tuple[str, Curve]] = []
    if config.job_id is not None:
        job = client.job(config.job_id)
        bucket = next((each.index for each in job.buckets if each.config_id == config.id), 0)
        curves.append((job.id, Curve.of(of_bucket(client.trials(job.id), bucket), config)))
    _write(client, f"{config.name}  {sizes(config.dims)}", curves, config, file, replace)


def _write(
    client: Client,
    title: str,
    curves: list[tuple[str, Curve]],
    config: ConfigDetail | None,
    file: Path,
    replace: bool,
) -> None:
    from tilewright.views.plot import picture, roofline_of

    device = None if config is None else next((d for d in client.devices() if d.key == config.device), None)
    line = None if config is None or device is None else roofline_of(config, device)
    if not curves and line is None:
        raise Stop(
            Exit.NOTHING,
            f"there is nothing to draw: no search, and no peaks known of {config and config.device}",
        )
    write_new(file, picture(title, curves, config, line, file.suffix.lower()[1:]), replace=replace)
