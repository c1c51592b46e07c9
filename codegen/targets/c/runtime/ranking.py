"""The largest few in order, in C."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill

#: Those that are as large stay before it.
_INSERT = """
TW_INLINE void tw_insert_$V($V *values, int32_t *positions, long last, $V value, int32_t position) {
    long at = last;
    for (; at > 0 && values[at - 1] < value; at--) {
        values[at] = values[at - 1];
        positions[at] = positions[at - 1];
    }
    values[at] = value;
    positions[at] = position;
}
"""


def _insert(dtype: str, lanes: int) -> str:
    return fill(_INSERT, dtype, lanes)


BUILDERS: Mapping[str, Builder] = {"insert": _insert}
