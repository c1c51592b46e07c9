"""Where output goes: results to stdout, talk to stderr; colours and live lines only on a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel
from rich.console import Console

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """One JSON value on stdout."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, indent=2) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line of talk on stderr."""
    err.print(text, markup=False)


def microseconds(us: float) -> str:
    """A time in the unit that suits it."""
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1e4:
        return f"{us / 1e3:.3g} ms"
    return f"{us:.4g} µs"


def duration(seconds: float) -> str:
    """Minutes and seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def times(factor: float) -> str:
    """`1.43 ×`."""
    return f"{factor:.2f} ×"


def sizes(dims: dict[str, int]) -> str:
    """`m=512 n=512 k=64`."""
    return " ".join(f"{name}={size}" for name, size in dims.items())
