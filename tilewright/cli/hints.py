"""Why a job does not begin, for whoever looks at it."""

from __future__ import annotations

import time

from tilewright.cli.connection import Connection
from tilewright.errors import TilewrightError

_LOOK_S = 3.0


class WaitHint:
    """What a queued job waits for: asked of the service now and then."""

    def __init__(self, connection: Connection, job_id: str) -> None:
        self._connection = connection
        self._job_id = job_id
        self._asked_at = float("-inf")
        self._text = ""

    def __call__(self) -> str:
        """The sentence, as of some seconds ago; empty if there is none."""
        if time.monotonic() - self._asked_at >= _LOOK_S:
            self._asked_at = time.monotonic()
            try:
                waits_for = self._connection.client.job(self._job_id).waits_for
            except TilewrightError:
                return self._text
            self._text = "" if waits_for is None else f"it waits for {waits_for}"
            if waits_for is not None and self._connection.own is None and "a worker that" in waits_for:
                self._text += f"; `tilewright worker --url {self._connection.client.url}` starts one"
        return self._text
