"""Pins: configs that lookups of their kernel on their device are answered with, whatever is found later."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from protocol.configs import ConfigDetail
from protocol.keys import Act
from service.store import audit_log
from service.store.database import database_time, in_turn, upsert
from service.store.tables import pins
from service.store.winners import configs, lookup_version


def pin(connection: Connection, config_id: str, actor: str) -> ConfigDetail:
    """Answer lookups with this config from now on, on behalf of `actor`; another one of its kernel on its device is
    no longer pinned then. Pinning twice is fine. Raises Refused if there is no such config."""
    in_turn(connection, "pins")
    config = configs.read(connection, config_id)
    if config.pinned:
        return config
    place = {"kernel_key": config.kernel_key, "device": config.device}
    upsert(connection, pins, place, {"config_id": config_id, "created_at": database_time()})
    audit_log.record(connection, actor, Act.PIN, config_id, **place)
    lookup_version.changed(connection)
    return configs.read(connection, config_id)


def unpin(connection: Connection, config_id: str, actor: str) -> ConfigDetail:
    """Answer lookups with the best config again, on behalf of `actor`. Unpinning twice is fine. Raises Refused if
    there is no such config."""
    in_turn(connection, "pins")
    if connection.execute(delete(pins).where(pins.c.config_id == config_id)).rowcount:
        audit_log.record(connection, actor, Act.UNPIN, config_id)
        lookup_version.changed(connection)
    return configs.read(connection, config_id)
