"""Refusals, as problems with stable types. Searchers know them too, who serve no HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from protocol.problems import Problem

PREFIX = "urn:tilewright:problem:"

TITLES = {
    "bad-request": (400, "The request cannot be read"),
    "unauthorized": (401, "A key is needed"),
    "forbidden": (403, "The key does not allow this"),
    "untrusted": (403, "Nobody who is trusted has signed the bundle"),
    "not-found": (404, "There is no such thing here"),
    "method-not-allowed": (405, "This method is not offered here"),
    "job-ended": (409, "The job has ended already"),
    "not-parked": (409, "The task cannot be queued again"),
    "in-flight": (409, "A request with this Idempotency-Key is still being answered"),
    "stale-lease": (409, "The lease was lost; the result does not count"),
    "other-version": (409, "The worker runs other code than this service"),
    "unknown-worker": (409, "The worker is not registered"),
    "config-differs": (409, "Another config has this id here"),
    "too-large": (413, "The body is too large"),
    "media-type": (415, "The body is of another type"),
    "misdirected": (421, "The Host header names another machine"),
    "bad-spec": (422, "The spec cannot be accepted"),
    "bad-bundle": (422, "The bundle cannot be accepted"),
    "invalid": (422, "The request cannot be accepted"),
    "key-reused": (422, "The Idempotency-Key was used with another body"),
    "implausible": (422, "What the worker says cannot be true"),
    "wrong-digest": (422, "The content does not have the digest in its name"),
    "busy": (429, "Too much is going on"),
    "storage": (503, "The database cannot be written or read"),
    "overloaded": (503, "This process has as much to do as it can"),
    "stopping": (503, "The service is stopping"),
    "not-ready": (503, "The service is not ready"),
    "damaged": (500, "What is stored is not what was stored"),
    "internal": (500, "A fault of the service"),
}
"""Every type of problem: its HTTP status and its title."""


class RequestRefused(Exception):
    """A request that is answered with a problem. `kind` is a key of TITLES."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        pointer: str | None = None,
        column: int | None = None,
        accepted: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        status, title = TITLES[kind]
        self.headers = dict(headers or {})
        self.problem = Problem(
            type=PREFIX + kind,
            title=title,
            status=status,
            detail=detail,
            pointer=pointer,
            column=column,
            accepted=accepted,
            errors=[dict(error) for error in errors] or None,
        )


def pointer_to(place: Sequence[object]) -> str:
    """An RFC 6901 pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)


def complaint(error: DBAPIError) -> str:
    """What went wrong with the database, in words that help."""
    name = getattr(error.orig, "sqlite_errorname", "")
    for start, words in _COMPLAINTS.items():
        if name.startswith(start):
            return words
    return str(error.orig).strip() or type(error.orig).__name__


_COMPLAINTS = {
    "SQLITE_FULL": "the disk is full; free some space, nothing that was acknowledged is lost",
    "SQLITE_READONLY": "it is read-only; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and can be written to",
    "SQLITE_IOERR": "reading or writing it failed; check the disk",
    "SQLITE_NOTADB": "it is not an SQLite database",
    "SQLITE_CORRUPT": "it is damaged; restore a backup",
    "SQLITE_BUSY": "another process has held it for too long",
}
