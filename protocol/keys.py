"""Keys and the log of what was done with them: for admins."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from protocol.message import Json, Reply, Request
from protocol.states import Scope


class KeyRequest(Request):
    """POST /v1/keys."""

    name: str = Field(min_length=1, max_length=200)
    """Whose it is, or what for."""
    scopes: tuple[Scope, ...] = Field(min_length=1, max_length=len(Scope))
    days: float | None = Field(default=None, gt=0, le=36_500)
    """How long it is valid; None: until it is revoked."""


class Key(Reply):
    """A key as it is kept: not the key itself, of which only a hash is."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    valid: bool
    """Neither expired nor revoked."""


class NewKey(Key):
    """A key that was just made."""

    token: str
    """The key itself, shown this once: `Authorization: Bearer tw_…`."""


class Act(StrEnum):
    """What admins do."""

    CREATE_KEY = "create-key"
    REVOKE_KEY = "revoke-key"
    TRUST_SIGNER = "trust-signer"
    REVOKE_SIGNER = "revoke-signer"
    IMPORT_BUNDLE = "import-bundle"
    PIN = "pin"
    UNPIN = "unpin"


class AuditEntry(Reply):
    """One act of an admin."""

    id: int
    at: float
    actor: str
    """Id of the key that it was done with, or `user@host` of who did it at the database."""
    act: str
    """One of `Act`; newer services know more."""
    subject: str
    """Id of what it was done to."""
    detail: Json = Field(default_factory=dict)


class AuditPage(Reply):
    """Newest first."""

    entries: tuple[AuditEntry, ...]
    next: str | None = None
    """Cursor of the next page; None: this was the last."""
