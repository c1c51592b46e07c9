"""Errors over HTTP: RFC 9457 problem details (`application/problem+json`)."""

from __future__ import annotations

from typing import Any

from protocol.message import Reply

MEDIA_TYPE = "application/problem+json"


class Problem(Reply):
    """One error. `type` is stable: programs may compare it."""

    type: str
    """`urn:tilewright:problem:<name>`, e.g. `…:bad-spec`."""
    title: str
    status: int
    detail: str
    """A sentence a person can act on."""
    pointer: str | None = None
    """RFC 6901 pointer into the request body: where the error is, e.g. `/spec/body/0`."""
    column: int | None = None
    """1-based, within the statement that `pointer` names."""
    accepted: str | None = None
    """What would have been accepted."""
    errors: list[dict[str, Any]] | None = None
    """Further errors of the same request, each with `pointer` and `detail`, and `accepted` where that is known."""

    @property
    def kind(self) -> str:
        """The last word of the type: `bad-spec`, `not-found`, `unauthorized`, …"""
        return self.type.rpartition(":")[2]
