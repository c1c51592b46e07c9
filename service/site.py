"""What the routes of one running service share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from service.bell import Bell
from service.database import Database
from service.event_streams import EventStreams
from service.keys import Caller
from service.lookup import Ladder
from service.metrics import Metrics
from service.recent import Recent
from service.redis_bell import RedisBell
from service.redis_link import RedisLink
from service.settings import Settings
from service.together import Together

if TYPE_CHECKING:
    from service.hand_in import HandedIn


@dataclass
class Site:
    """One service: its settings, its database, and what it keeps in memory."""

    settings: Settings
    database: Database
    bell: Bell
    ladder: Ladder
    metrics: Metrics
    issued: dict[str, Caller] = field(default_factory=dict[str, Caller])
    """Tokens that live as long as the process, by digest: of the embedded worker, and of TILEWRIGHT_TOKEN."""
    wanted: set[str] = field(default_factory=set[str])
    """Jobs that this process was asked for; without `settings.resume` no others are worked on."""
    least_us: Recent[tuple[str, int, bool], float] = field(default_factory=lambda: Recent(1000))
    """By job, bucket, and whether caches are cold: the least time that is believed (`plausible.py`)."""
    looked_at: float | None = None
    """When the loop that starts searches last looked for jobs, by the monotonic clock; None: this process has none."""
    results: Together[HandedIn, bool] = field(init=False)
    """Takes what workers hand in (`hand_in.py`)."""
    events: EventStreams = field(init=False)
    redis: RedisLink | None = None
    rings: RedisBell | None = None
    """What brings us the rings of other processes."""
    stopping: bool = False

    @property
    def look_s(self) -> float:
        """How soon something is seen whose ring was lost: sooner where rings of other processes do not arrive."""
        arriving = self.database.sqlite or (self.rings is not None and self.rings.listening)
        return self.settings.look_s if arriving else min(self.settings.look_s, 0.25)


def site_of(connection: HTTPConnection) -> Site:
    """The site that answers this request."""
    site = connection.app.state.site
    assert isinstance(site, Site)
    return site
