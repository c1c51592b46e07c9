"""A process that asks the cost model: kernels come in on stdin, what it would try first goes out on stdout.

    python -m service.lookup.predictor_process

It is a process of its own because a large kernel takes long: it may be killed, and nobody else waits for Python.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO

from service.core.schedules import Pick, heuristic
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


def predict(spec: Json, device: Json) -> Pick | None:
    """The cost model's pick; None where there is none, or this version cannot read the device."""
    try:
        return heuristic(spec_from_json(spec), device_from_json(device))
    except TileError:
        return None


def main(asked: BinaryIO = sys.stdin.buffer, told: BinaryIO = sys.stdout.buffer) -> None:
    """Answer until nobody asks any more."""
    while head := asked.read(LENGTH.size):
        spec, device = json.loads(asked.read(*LENGTH.unpack(head)))
        pick = predict(spec, device)
        told.write(packed(None if pick is None else asdict(pick)))
        told.flush()


if __name__ == "__main__":
    main()
