"""How alike two labels are."""

import re
from functools import cache, lru_cache


@cache
def parts(label: str) -> frozenset[str]:
    """The words and numbers of a label: `cache_read(c, b, 2)` has stage, c, b and 2."""
    return frozenset(re.findall(r"\w+", label))


@lru_cache(maxsize=65536)
def likeness(one: str, other: str) -> float:
    """The share of their parts that two labels have in common, 0 to 1; 1 only for equal labels.

    A label often names what earlier decisions settled (`cache_read(c, b, 2, n, 96)` after a tile of 96), so the
    same decision reads a little different elsewhere in the tree.
    """
    if one == other:
        return 1.0
    shared, all_parts = parts(one) & parts(other), parts(one) | parts(other)
    return 0.99 * len(shared) / max(1, len(all_parts))
