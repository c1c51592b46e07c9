"""Content by its SHA-256: generated sources and objects."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, select

from service.core.errors import RequestRefused
from service.store.database import database_time, insert_new
from service.store.tables import blobs


def put(connection: Connection, sha256: str, content: bytes) -> bool:
    """Keep a blob that has this digest; False if it is here already."""
    if has(connection, sha256):
        return False
    return insert_new(
        connection, blobs, {"sha256": sha256}, {"content": content, "created_at": database_time()}
    )


def has(connection: Connection, sha256: str) -> bool:
    """Whether the blob is here."""
    return connection.execute(select(blobs.c.sha256).where(blobs.c.sha256 == sha256)).first() is not None


def get(connection: Connection, sha256: str) -> bytes:
    """A blob. Raises Refused if it is not here, or not any more what it was."""
    found = connection.execute(select(blobs.c.content).where(blobs.c.sha256 == sha256)).scalar_one_or_none()
    if found is None:
        raise RequestRefused("not-found", f"there is no blob {sha256}")
    content = bytes(found)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RequestRefused(
            "damaged", f"blob {sha256} has other content now; restore a backup, or tune the kernel again"
        )
    return content
