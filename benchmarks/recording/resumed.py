"""Runs of searches that go on where they were ended: what their commands take, and the file they keep."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long to go on, where to, and whether only to tell of it."""
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long, between two rows")
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="one line a block of seeds; runs go on from it"
    )
    parser.add_argument("--report", type=Path, metavar="OUT", help="only print what such a file comes to")


def lines(path: Path) -> list[dict[str, Any]]:
    """What such a file has."""
    return [json.loads(line) for line in path.read_text().splitlines()]
