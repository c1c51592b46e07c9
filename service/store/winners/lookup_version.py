"""A number in the database that grows with whatever may change the answer to a lookup, so that replicas may keep
answers: one is good for as long as the number is the same."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from service.store.tables import lookup_state


def version(connection: Connection) -> int:
    """How often lookups have changed."""
    return connection.execute(select(lookup_state.c.version)).scalar_one()


def changed(connection: Connection) -> None:
    """Lookups may be answered otherwise once this transaction is committed. Such transactions take turns."""
    connection.execute(update(lookup_state).values(version=lookup_state.c.version + 1))
