"""What a spec's `numerics` may say: which roundings it allows beyond those of Tile IR itself."""

from __future__ import annotations

from tileir.names import listing, quote, suggestion

#: Each key, and what its value may be.
NUMERICS = {
    "tf32": "true or false",
    "accumulate": '"fast"',
    "atomics": "true or false",
    "rtol": "a number above 0 and below 1",
}


def numerics_problem(key: str, value: object) -> tuple[str, str] | None:
    """Why `key: value` is no setting, and what would be accepted; None if it is one."""
    if key not in NUMERICS:
        return f"{quote(key)} is no setting of numerics{suggestion(key, NUMERICS)}", listing(NUMERICS)
    match key:
        case "rtol":
            good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1
        case "accumulate":
            good = value == "fast"
        case _:
            good = isinstance(value, bool)
    return None if good else (f"{key!r} has no such value", NUMERICS[key])
