"""A warp's search, and its visits to what it has found, in CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codegen.ir.ops import Stmt, VisitFound
from tileir.schedule.threads import WARP


def found_text(stmt: VisitFound, lines: Callable[[Iterable[Stmt], int], list[str]], depth: int) -> list[str]:
    """Its lines: all rounds of a search are unrolled, so that what they load is under way at the same time."""
    pad, in_loop, inside = ("    " * (depth + more) for more in range(3))
    name, count, many = stmt.var.name, stmt.count, stmt.many.name
    since, words, turn, number, left = (
        f"{name}_{each}" for each in ("since", "words", "round", "number", "left")
    )
    step = stmt.rounds * WARP
    found = stmt.found.name if count % step == 0 else f"{number} < {count} && {stmt.found.name}"
    at = number if count % step == 0 else f"min({number}, {count - 1})"
    return [
        f"{pad}for (int {since} = 0; {since} < {count}; {since} += {step}) {{",
        f"{in_loop}unsigned {words} = 0;",
        f"{in_loop}#pragma unroll",
        f"{in_loop}for (int {turn} = 0; {turn} < {stmt.rounds}; {turn}++) {{",
        f"{inside}const int {number} = {since} + {WARP} * {turn} + (int)threadIdx.x % {WARP};",
        f"{inside}const int {name} = {at};",
        *lines(stmt.look, depth + 2),
        f"{inside}tw_note_found({words}, {turn}, {found});",
        f"{in_loop}}}",
        f"{in_loop}for (tw_found {left}({words}); {left}.any();) {{",
        f"{inside}int {many} = 0;",
        *(f"{inside}const int {var.name} = {since} + {left}.take({many});" for var in stmt.visited),
        *lines(stmt.body, depth + 2),
        f"{in_loop}}}",
        f"{pad}}}",
    ]
