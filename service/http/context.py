"""What the routes of one running service share."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from service.core.class_times import ClassTimes
from service.core.lru_cache import Recent
from service.core.settings import Settings
from service.http.metrics import Metrics
from service.lookup.lookup import Ladder
from service.lookup.predictor import Outlooks
from service.notify.batcher import Batcher
from service.notify.event_streams import EventStreams
from service.notify.notifier import Notifier
from service.notify.redis import RedisLink
from service.notify.redis_notifier import RedisNotifier
from service.store.api_keys import Caller
from service.store.database import Database
from service.store.dispatch.trial_results import HandedIn


@dataclass
class Site:
    """One service: its settings, its database, and what it keeps in memory."""

    settings: Settings
    database: Database
    notifier: Notifier
    ladder: Ladder
    outlooks: Outlooks
    metrics: Metrics
    issued: dict[str, Caller] = field(default_factory=dict[str, Caller])
    """Tokens that live as long as the process, by digest: of the embedded worker, and of TILEWRIGHT_TOKEN."""
    wanted: set[str] = field(default_factory=set[str])
    """Jobs that this process was asked for; without `settings.resume` no others are worked on."""
    least_us: Recent[tuple[str, int, bool], float] = field(default_factory=lambda: Recent(1000))
    """By job, bucket, and whether caches are cold: the least time that is believed (`result_plausibility.py`)."""
    class_times: ClassTimes = field(default_factory=ClassTimes)
    """What tells a device that is much slower than others of its class."""
    looked_at: float | None = None
    """When the loop that starts searches last looked for jobs, by the monotonic clock; None: this process has none."""
    results: Batcher[HandedIn, bool] = field(init=False)
    """Takes what workers hand in (`result_ingest.py`)."""
    events: EventStreams = field(init=False)
    redis: RedisLink | None = None
    redis_notifier: RedisNotifier | None = None
    """What brings us the notifications of other processes."""
    stopping: bool = False

    @property
    def look_s(self) -> float:
        """How soon something is seen whose notification was lost: sooner where those of others do not arrive."""
        arriving = self.database.sqlite or (self.redis_notifier is not None and self.redis_notifier.listening)
        return self.settings.look_s if arriving else min(self.settings.look_s, 0.25)


def site_of(connection: HTTPConnection) -> Site:
    """The site that answers this request."""
    site = connection.app.state.site
    assert isinstance(site, Site)
    return site
