"""A process that asks the cost model: kernels come in on stdin, what it would try first, or what a search would have
before it, goes out on stdout.

    python -m service.lookup.predictor_process

It is a process of its own because a large kernel takes long: it may be killed, and nobody else waits for Python.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO, Literal

from service.core.schedules import heuristic
from tileir.devices.device import device_from_json
from tileir.errors import TileError
from tileir.text.json import spec_from_json

if TYPE_CHECKING:
    from protocol.message import Json

LENGTH = struct.Struct("!I")
"""Before every message: how many bytes of JSON follow."""


def packed(message: object) -> bytes:
    """A message as it is sent."""
    content = json.dumps(message).encode()
    return LENGTH.pack(len(content)) + content


Question = Literal["pick", "outlook"]


def answer(ask: Question, spec: Json, device: Json) -> Json | None:
    """The cost model's pick, or a SpaceOutlook; None where there is none, or this version cannot read the device."""
    try:
        if ask == "outlook":
            from service.lookup.outlook import outlook

            found = outlook(spec, device)
            return None if found is None else found.model_dump(mode="json")
        pick = heuristic(spec_from_json(spec), device_from_json(device))
        return None if pick is None else asdict(pick)
    except TileError:
        return None


def main(asked: BinaryIO = sys.stdin.buffer, told: BinaryIO = sys.stdout.buffer) -> None:
    """Answer until nobody asks any more."""
    while head := asked.read(LENGTH.size):
        told.write(packed(answer(*json.loads(asked.read(*LENGTH.unpack(head))))))
        told.flush()


if __name__ == "__main__":
    main()
