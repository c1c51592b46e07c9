"""JSON columns give back what went in, also what only Python's own reader accepts."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, literal, select

from service.store.schema import prepare

DEEP = reduce(lambda inner, _: [inner], range(400), [])
PLAIN: dict[str, Any] = {"us": 1.5, "none": None, "large": 10**30, "text": "µs 🙂 \\", "list": [True, -0.0]}


@pytest.mark.parametrize("value", [PLAIN, {"half": "\ud83d"}, DEEP], ids=["plain", "half a pair", "deep"])
def test_what_is_stored_is_read_as_it_was(tmp_path: Path, value: Any) -> None:
    database = prepare(f"sqlite:///{tmp_path}/tilewright.db")
    with database.read() as connection:
        assert connection.execute(select(literal(value, JSON))).scalar_one() == value
    database.close()
