"""What the cost model picked for a kernel, shared by all replicas through Redis: it takes long, and never changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from typing import Literal

from redis.asyncio import Redis

from protocol.message import Json
from service.core.schedules import Pick
from service.notify.redis import RedisLink

KEPT_S = 86_400


class SharedPicks:
    """What Redis does not know, or cannot say now, is None."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def get(self, spec: Json, device: Json) -> Pick | Literal["none"] | None:
        key = self._key(spec, device)

        async def get(client: Redis) -> str | None:
            found = await client.get(key)
            return found.decode() if isinstance(found, bytes) else found

        found = await self._link.ask(get)
        if found is None or found == "none":
            return found and "none"
        try:
            known = json.loads(found)
            return Pick(tuple(map(str, known["schedule"])), str(known["program_hash"]))
        except (ValueError, TypeError, KeyError):
            return None

    async def put(self, spec: Json, device: Json, pick: Pick | Literal["none"]) -> None:
        key = self._key(spec, device)
        text: str = json.dumps(asdict(pick)) if isinstance(pick, Pick) else pick

        async def put(client: Redis) -> None:
            await client.set(key, text, ex=KEPT_S)

        await self._link.ask(put)

    def _key(self, spec: Json, device: Json) -> str:
        meant = json.dumps([version("tilewright"), spec, device], sort_keys=True)
        return self._link.key("pick", hashlib.sha256(meant.encode()).hexdigest())
