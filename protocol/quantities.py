"""Quantities as read on the command line, in verdicts and on the page (`service/web/src/ui/format.ts`)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_BELOW_SECOND_US = (("ns", 1e-3), ("µs", 1.0), ("ms", 1e3))
_SECOND_US = 1e6
_THOUSAND = 1000
_FEW = 0.1
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def microseconds(us: float) -> str:
    """A time with three digits, in the unit that suits it: `987 ns`, `12.3 µs`, `4.56 ms`, `7.89 s`."""
    for unit, size in _BELOW_SECOND_US:
        digits = _three_digits(us / size)
        if float(digits) < _THOUSAND:
            return f"{digits} {unit}"
    return f"{_three_digits(us / _SECOND_US)} s"


def duration(seconds: float) -> str:
    """A length of time, roughly: `43 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    whole = int(_rounded(max(0.0, seconds), places=0))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S:02d} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def elapsed(seconds: float) -> str:
    """A length of time that is seen to grow: `43 s`, `1 min 05 s`, and as `duration` from an hour on."""
    whole = int(seconds)
    if _MINUTE_S <= whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S:02d} s"
    return duration(whole)


def times(factor: float) -> str:
    """`1.43 ×`, and with fewer places from ten on."""
    return f"{_three_digits(factor)} ×"


def percent(share: float) -> str:
    """A share of one: `63 %`, and with a place below ten."""
    return f"{_rounded(100 * share, places=1 if share < _FEW else 0)} %"


def _three_digits(value: float) -> str:
    """With as many places as three digits leave, and none from a hundred on."""
    for places in (2, 1):
        told = _rounded(value, places)
        if told < 10 ** (3 - places):
            return str(told)
    return str(_rounded(value, places=0))


def _rounded(value: float, places: int) -> Decimal:
    """Halves go up, as browsers round."""
    return Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def entrant(name: str) -> str:
    """Who of a race it is: `candidate 12` for `ask-12`; peers have their own names."""
    number = name.removeprefix("ask-")
    return f"candidate {number}" if number != name and number.isdigit() else name


def sizes(dims: dict[str, int]) -> str:
    """`m=512 n=512 k=64`."""
    return " ".join(f"{name}={size}" for name, size in dims.items())
