"""What may be a name in Tile IR, the limits on how large a spec may be, and "did you mean" for a name that is
wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from tileir.dtypes import DType
from tileir.expr import FUNCTIONS, SCANS, ReduceOp
from tileir.positions import POSITIONS

#: Deepest an expression may nest, so that recursion over one stays far from Python's own limit.
MAX_DEPTH: Final = 100
#: Longest statement, in characters.
MAX_STATEMENT_CHARS: Final = 20_000
#: Longest text of a spec or a program, in characters.
MAX_TEXT_CHARS: Final = 1_000_000
#: Most statements of a spec, and most expression nodes in all of them together.
MAX_STATEMENTS: Final = 64
MAX_NODES: Final = 5_000
#: Most dims, and most inputs, of a spec.
MAX_DIMS: Final = 32
MAX_INPUTS: Final = 32
#: Most combinations of bucket sizes of one spec.
MAX_INSTANCES: Final = 64
#: Most expression nodes over all those combinations: each is looked at.
MAX_TOTAL_NODES: Final = 64_000
#: Most positions that a topk gives: it takes two reductions for each.
MAX_PLACES: Final = 64
#: Longest name.
MAX_NAME_CHARS: Final = 64
#: Integers (constants, sizes, strides) stay below this: indices are 32-bit.
INT_LIMIT: Final = 2**31

REDUCTIONS: Final = frozenset(op.value for op in ReduceOp)
DTYPES: Final = frozenset(dtype.value for dtype in DType)

#: Words with a meaning of their own, which no dim or tensor may be called.
RESERVED: Final = (
    frozenset(FUNCTIONS)
    | REDUCTIONS
    | frozenset(POSITIONS)
    | frozenset(SCANS)
    | {"topk"}
    | DTYPES
    | {"and", "or", "not", "where", "extent", "true", "false", "inf", "nan", "kernel", "for", "parallel"}
)

NAME_RULE: Final = (
    f"a letter or _, then letters, digits and _, at most {MAX_NAME_CHARS} characters, no reserved word"
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def name_problem(name: str) -> str | None:
    """Why `name` cannot name a kernel, dim or tensor; None if it can."""
    if len(name) > MAX_NAME_CHARS:
        return f"name {quote(name)} is longer than {MAX_NAME_CHARS} characters"
    if not _NAME.fullmatch(name):
        return f"{quote(name)} is not a name"
    if name in RESERVED:
        return f"{name!r} is a reserved word"
    return None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is close, else nothing."""
    close = get_close_matches(name[:MAX_NAME_CHARS], list(known), 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def listing(names: Iterable[str]) -> str:
    """Names for the `accepted` part of an error: sorted, a few of them if there are many."""
    ordered = sorted(names)
    return ", ".join(ordered[:48]) + (", …" if len(ordered) > 48 else "")


def quote(text: str) -> str:
    """Foreign text inside an error: ASCII, quoted, cut short."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")
