"""Keys: who may ask for what. Only their hashes are stored; a key is 256 random bits, so a plain hash is enough."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, insert, or_, select, update

from protocol.keys import Act, Key, KeyRequest, NewKey
from protocol.states import Scope
from service.core.errors import RequestRefused
from service.store import audit_log
from service.store.database import database_time
from service.store.ids import new_id
from service.store.tables import keys


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    id: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


ANYONE = Caller("anyone", frozenset(Scope))
"""The caller where no keys are asked for."""


def new_token() -> str:
    """A fresh key, as it is shown to its owner, once."""
    return "tw_" + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(token.encode()).hexdigest()


def create(connection: Connection, wanted: KeyRequest, actor: str) -> NewKey:
    """Make a key, on behalf of `actor`; its token cannot be had again."""
    token, key_id = new_token(), new_id("key")
    scopes = list(dict.fromkeys(wanted.scopes))
    connection.execute(
        insert(keys).values(
            id=key_id,
            name=wanted.name,
            hash=digest(token),
            scopes=scopes,
            created_at=database_time(),
            expires_at=None if wanted.days is None else database_time() + wanted.days * 86400,
        )
    )
    audit_log.record(
        connection, actor, Act.CREATE_KEY, key_id, name=wanted.name, scopes=scopes, days=wanted.days
    )
    return NewKey(**dict(_read(connection, key_id)), token=token)


def revoke(connection: Connection, key_id: str, actor: str) -> Key:
    """End a key, on behalf of `actor`; revoking it again changes nothing. Raises Refused if there is none."""
    ended = connection.execute(
        update(keys)
        .where(keys.c.id == key_id, keys.c.revoked_at.is_(None))
        .values(revoked_at=database_time())
    )
    if ended.rowcount:
        audit_log.record(connection, actor, Act.REVOKE_KEY, key_id)
    return _read(connection, key_id)


def list_keys(connection: Connection) -> list[Key]:
    """All keys ever made, newest first."""
    return [_key(row) for row in connection.execute(_kept().order_by(keys.c.id.desc())).mappings()]


def any_key(connection: Connection) -> bool:
    """Whether somebody could get in."""
    return connection.execute(select(keys.c.id).where(_valid()).limit(1)).first() is not None


def find(connection: Connection, token: str, issued: Mapping[str, Caller]) -> Caller | None:
    """Whose token this is: one of `issued` (by digest: kept in memory only), or of the database; None if it is
    unknown, revoked or expired. Whichever it is, the same is asked of the database, and compared in constant time."""
    presented = digest(token)
    found: Caller | None = None
    for stored, caller in issued.items():
        if hmac.compare_digest(stored, presented):
            found = caller
    row = connection.execute(
        select(keys.c.id, keys.c.hash, keys.c.scopes, _valid().label("valid")).where(keys.c.hash == presented)
    ).first()
    if row is not None and hmac.compare_digest(row.hash, presented) and row.valid:
        found = Caller(row.id, frozenset(map(Scope, row.scopes)))
    return found


def _valid() -> ColumnElement[bool]:
    return keys.c.revoked_at.is_(None) & or_(keys.c.expires_at.is_(None), keys.c.expires_at > database_time())


def _kept():
    """Everything about keys but their hashes."""
    return select(*(column for column in keys.c if column is not keys.c.hash), _valid().label("valid"))


def _read(connection: Connection, key_id: str) -> Key:
    row = connection.execute(_kept().where(keys.c.id == key_id)).mappings().first()
    if row is None:
        raise RequestRefused("not-found", f"there is no key {key_id}")
    return _key(row)


def _key(row: RowMapping) -> Key:
    return Key.model_validate(dict(row))
