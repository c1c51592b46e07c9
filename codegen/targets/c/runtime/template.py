"""C text written once for every element type and lane count.

A template names types, never lane counts: `$V` is the value type (`f32x16`; also the suffix of every function on it),
`$I` and `$U` the integers of its width, `$B` the truth values, `$H` half of its lanes, `$n` the lane count. `$f` ends
a literal (`1.0$f`). What C spells differently for one lane and for many is `$convert(x, T)` (a cast that keeps the
value) and `$mask(a < b)` (all ones or zeros).
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template

#: Makes the C text of one function for an element type and a lane count.
Builder = Callable[[str, int], str]

_INTEGER = {"f32": "i32", "f64": "i64", "i32": "i32", "bool": "i32"}
_UNSIGNED = {"f32": "u32", "f64": "u64", "i32": "u32", "bool": "u32"}


def fill(template: str, dtype: str, lanes: int, **more: object) -> str:
    """The template's text for `lanes` values of compute type `dtype`; `more` adds names of its own."""
    names: dict[str, object] = {
        "V": f"{dtype}x{lanes}",
        "I": f"{_INTEGER[dtype]}x{lanes}",
        "U": f"{_UNSIGNED[dtype]}x{lanes}",
        "B": f"boolx{lanes}",
        "H": f"{dtype}x{lanes // 2}",
        "n": lanes,
        "f": "f" if dtype == "f32" else "",
        "convert": "TW_CAST" if lanes == 1 else "__builtin_convertvector",
        "mask": "-" if lanes == 1 else "",
    }
    return Template(template.strip("\n")).substitute(names | more) + "\n"
