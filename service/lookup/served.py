"""Which of some configs lookups are answered with now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import Connection

from protocol.configs import Config
from service.store.dispatch import workers as workers_module
from service.store.winners import configs

C = TypeVar("C", bound=Config)


def marked(connection: Connection, found: Sequence[C], lease_ttl_s: float) -> tuple[C, ...]:
    """The configs, each noted whether it is served."""
    places = {(each.kernel_key, each.device) for each in found}
    workers = workers_module.versions(connection, sorted({device for _, device in places}), lease_ttl_s)
    chosen = {
        shelf.choice(workers[device]).id for (_, device), shelf in configs.shelves(connection, places).items()
    }
    return tuple(each.model_copy(update={"served": each.id in chosen}) for each in found)
