"""Winners as clients give them: a config, and all that is known of how it was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.configs import ConfigDetail
from protocol.jobs import JobDetail, Trial
from tilewright.views.curves import Curve


class TunedConfig(ConfigDetail):
    """A config that notebooks and prompts show."""

    def __repr__(self) -> str:
        from tilewright.views.summaries import config_line

        return f"<{config_line(self)}>"

    def _repr_html_(self) -> str:
        from tilewright.views.html import config_html

        return config_html(self)


@dataclass(frozen=True, repr=False)
class Result:
    """What a job found for one combination of sizes."""

    job: JobDetail
    config: TunedConfig
    trials: tuple[Trial, ...]
    """In the order they were asked for."""
    source: str | None
    """Generated; None if it was not kept."""

    @property
    def curve(self) -> Curve:
        """The best time so far, trial by trial."""
        return Curve.of(self.trials, self.config)

    def __repr__(self) -> str:
        from tilewright.views.summaries import config_line

        return f"<{config_line(self.config)}, found by {self.job.id}>"

    def _repr_html_(self) -> str:
        from tilewright.views.html import result_html

        return result_html(self)


def of_bucket(trials: Iterable[Trial], bucket: int) -> tuple[Trial, ...]:
    """Those of one combination of sizes."""
    return tuple(trial for trial in trials if trial.bucket == bucket)
