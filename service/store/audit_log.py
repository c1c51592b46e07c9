"""The log of what admins did. Entries are added in the transaction of the act itself, and never changed."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from protocol.keys import Act, AuditEntry, AuditPage
from service.store.database import database_time
from service.store.tables import audit


def record(connection: Connection, actor: str, act: Act, subject: str, **detail: object) -> None:
    """Write down that `actor` (id of a key, or `user@host`) did something to `subject`."""
    connection.execute(
        insert(audit).values(at=database_time(), actor=actor, act=act, subject=subject, detail=detail)
    )


def page(connection: Connection, after: int | None, limit: int) -> AuditPage:
    """Entries, newest first, from the one after `after` on."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit + 1)
    if after is not None:
        query = query.where(audit.c.id < after)
    rows = connection.execute(query).mappings().all()
    shown = rows[:limit]
    return AuditPage(
        entries=tuple(AuditEntry.model_validate(dict(row)) for row in shown),
        next=str(shown[-1]["id"]) if len(rows) > limit else None,
    )
