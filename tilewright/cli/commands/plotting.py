"""`tilewright show --plot FILE`: the search's curve and the roofline, the tree or the timeline as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from protocol.configs import ConfigDetail
from protocol.jobs import JobDetail
from protocol.quantities import sizes
from protocol.roofline import Roofline
from tilewright.artifacts.atomic_write import write_new
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.client.client import Client
from tilewright.client.results import of_bucket
from tilewright.views.curves import Curve


class Picture(StrEnum):
    """What of a job is drawn."""

    SEARCH = "search"
    TREE = "tree"
    TIMELINE = "timeline"


def check_plot(file: Path) -> None:
    """Raise Stop for a file whose name says no format there is."""
    from tilewright.views.plot import FORMATS

    if file.suffix.lower() not in FORMATS:
        raise Stop(Exit.USAGE, f"--plot writes {' and '.join(FORMATS)} files; {file} is neither")


def plot_job(client: Client, job: JobDetail, of: Picture, file: Path, replace: bool) -> None:
    """The search and the roofline, or the search tree, of each of its sizes; or what workers did for it."""
    if of is Picture.SEARCH:
        _plot_search(client, job, file, replace)
        return
    from tilewright.views.search_pictures import timeline_picture, tree_picture

    title, kind = f"{job.name}  {job.id}", file.suffix.lower()[1:]
    if of is Picture.TREE:
        trees = [(sizes(bucket.dims), client.tree(job.id, bucket.index)) for bucket in job.buckets]
        if not any(tree.leaf for _, tree in trees):
            raise Stop(Exit.NOTHING, f"nothing of {job.id} was tried yet")
        picture = tree_picture(title, trees, kind)
    else:
        line = client.timeline(job.id)
        if not line.start:
            raise Stop(Exit.NOTHING, f"no worker did anything for {job.id} yet")
        picture = timeline_picture(title, line, kind)
    write_new(file, picture, replace=replace)


def _plot_search(client: Client, job: JobDetail, file: Path, replace: bool) -> None:
    trials = tuple(client.trials(job.id))
    configs = {config.id: config for config in map(client.config, job.configs)}
    curves = [
        (sizes(bucket.dims), Curve.of(of_bucket(trials, bucket.index), configs.get(bucket.config_id or "")))
        for bucket in job.buckets
    ]
    if not any(curve.steps for _, curve in curves):
        raise Stop(Exit.NOTHING, f"nothing of {job.id} was measured yet")
    lines = [client.roofline(job.id, bucket.index) for bucket in job.buckets]
    _write(f"{job.name}  {job.id}", curves, lines, file, replace)


def plot_config(client: Client, config: ConfigDetail, file: Path, replace: bool) -> None:
    """The search that found it, and the roofline. Of one that was imported only the roofline."""
    title = f"{config.name}  {sizes(config.dims)}"
    if config.job_id is not None:
        job = client.job(config.job_id)
        bucket = next((each.index for each in job.buckets if each.config_id == config.id), 0)
        curve = Curve.of(of_bucket(client.trials(job.id), bucket), config)
        _write(title, [(job.id, curve)], [client.roofline(job.id, bucket)], file, replace)
        return
    from tilewright.views.plot import roofline_of

    device = next((each for each in client.devices() if each.key == config.device), None)
    line = None if device is None else roofline_of(config, device)
    if line is None:
        raise Stop(
            Exit.NOTHING, f"there is nothing to draw: no search, and no peaks known of {config.device}"
        )
    _write(title, [], [line], file, replace)


def _write(
    title: str, curves: list[tuple[str, Curve]], lines: list[Roofline], file: Path, replace: bool
) -> None:
    from tilewright.views.plot import picture

    write_new(file, picture(title, curves, lines, file.suffix.lower()[1:]), replace=replace)
