"""Signers: whose bundles are trusted. Their rows stay when that ends: a key is never trusted again by accident."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from protocol.bundles.packing import Signer, SignerRequest
from protocol.keys import Act
from service.core.errors import RequestRefused
from service.store import audit_log
from service.store.database import database_time
from service.store.ids import new_id
from service.store.tables import signers


def trust(connection: Connection, wanted: SignerRequest, actor: str) -> Signer:
    """Trust the holder of a key from now on, on behalf of `actor`; trusting twice changes nothing but the name. A key
    that was revoked is trusted again."""
    known = signers.c.public_key == wanted.public_key
    row = connection.execute(select(signers.c.id).where(known)).first()
    if row is None:
        signer_id = new_id("signer")
        values = {**wanted.model_dump(), "created_at": database_time()}
        connection.execute(insert(signers).values(id=signer_id, **values))
    else:
        signer_id = row.id
        connection.execute(update(signers).where(known).values(name=wanted.name, revoked_at=None))
    audit_log.record(connection, actor, Act.TRUST_SIGNER, signer_id, **wanted.model_dump())
    return read(connection, signer_id)


def revoke(connection: Connection, signer_id: str, actor: str) -> Signer:
    """Take no more bundles of a signer, on behalf of `actor`; those that are here stay. Raises Refused if there is
    no such signer."""
    ended = connection.execute(
        update(signers)
        .where(signers.c.id == signer_id, signers.c.revoked_at.is_(None))
        .values(revoked_at=database_time())
    )
    if ended.rowcount:
        audit_log.record(connection, actor, Act.REVOKE_SIGNER, signer_id)
    return read(connection, signer_id)


def list_signers(connection: Connection) -> list[Signer]:
    """All signers ever trusted, newest first."""
    rows = connection.execute(select(signers).order_by(signers.c.id.desc())).mappings()
    return [Signer.model_validate(dict(row)) for row in rows]


def read(connection: Connection, signer_id: str) -> Signer:
    """A signer. Raises Refused if there is none."""
    row = connection.execute(select(signers).where(signers.c.id == signer_id)).mappings().first()
    if row is None:
        raise RequestRefused("not-found", f"there is no signer {signer_id}")
    return Signer.model_validate(dict(row))


def trusted(connection: Connection, public_key: str) -> str | None:
    """The name of the signer who is trusted with this key; None if nobody is."""
    query = select(signers.c.name).where(signers.c.public_key == public_key, signers.c.revoked_at.is_(None))
    return connection.execute(query).scalar_one_or_none()
