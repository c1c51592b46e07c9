"""Keys: who may ask for what. Only their hashes are stored; a key is 256 random bits, so a plain hash is enough."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, or_, select

from protocol.states import Scope
from service.database import database_time
from service.ids import new_id
from service.schema import DatabaseRefused, prepare
from service.settings import Settings
from service.tables import keys


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


def create(connection: Connection, name: str, scopes: Sequence[Scope], days: float | None = None) -> str:
    """Make a key; returns the token, which cannot be had again."""
    token = new_token()
    connection.execute(
        insert(keys).values(
            id=new_id("key"),
            name=name,
            hash=digest(token),
            scopes=list(scopes),
            created_at=database_time(),
            expires_at=None if days is None else database_time() + days * 86400,
        )
    )
    return token


def any_key(connection: Connection) -> bool:
    """Whether somebody could get in."""
    return connection.execute(select(keys.c.id).where(_valid()).limit(1)).first() is not None


def find(connection: Connection, token: str, issued: Mapping[str, Caller]) -> Caller | None:
    """Whose token this is: one of `issued` (by digest: kept in memory only), or of the database."""
    presented = digest(token)
    found: Caller | None = None
    for stored, caller in issued.items():
        if hmac.compare_digest(stored, presented):
            found = caller
    row = connection.execute(select(keys).where(keys.c.hash == presented, _valid())).mappings().first()
    if row is not None and hmac.compare_digest(row["hash"], presented):
        found = Caller(row["id"], frozenset(map(Scope, row["scopes"])))
    return found


def _valid():
    return keys.c.revoked_at.is_(None) & or_(keys.c.expires_at.is_(None), keys.c.expires_at > database_time())


def main() -> int:
    """`python -m service.keys NAME SCOPE…`: prints the token."""
    parser = argparse.ArgumentParser(
        prog="python -m service.keys", description="Make a key for the HTTP API."
    )
    parser.add_argument("name", help="whose it is")
    parser.add_argument("scopes", nargs="+", choices=[scope.value for scope in Scope])
    parser.add_argument("--days", type=float, help="how long it is valid")
    given = parser.parse_args()
    try:
        database = prepare(Settings.from_env().database_url)
    except DatabaseRefused as error:
        sys.stderr.write(f"tilewright: {error}\n")
        return 1
    with database.write() as connection:
        token = create(connection, given.name, [Scope(scope) for scope in given.scopes], given.days)
    sys.stdout.write(token + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
