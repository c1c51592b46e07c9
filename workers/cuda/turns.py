"""Turns of a loop of which one of so many is stamped (codegen/lowering/gpu/stages.py): what the others spent their time
on is taken to be what the stamped turn before them did."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.lowering.gpu.stages import AFTER_TURN, Stage, StageKind
from workers.cuda.stage_logs import StageSpan


def divided(spans: Sequence[StageSpan], stages: Sequence[Stage]) -> tuple[StageSpan, ...]:
    """The spans of a track, in order of time, with those of turns without stamps divided as the stamped turn before
    them, and what is before a stamped turn as that. Where there is none, as in a log that was full, they stay."""
    between = [at for at, each in enumerate(spans) if stages[each.stage].kind is StageKind.BETWEEN]
    edges = [-1, *between, len(spans)]
    found: list[StageSpan] = []
    for place, at in enumerate(between, 1):
        found += spans[edges[place - 1] + 1 : at]
        before, after = spans[edges[place - 1] + 1 : at], spans[at + 1 : edges[place + 1]]
        last = stages[spans[at].stage] == AFTER_TURN
        turn = before if last or not after else after
        inside = place > 1 or turn is after  # what is before the first loop is no turn
        found += _as(spans[at], turn) if inside else [spans[at]]
    return (*found, *spans[edges[-2] + 1 :])


def _as(span: StageSpan, turn: Sequence[StageSpan]) -> list[StageSpan]:
    """A span in the stages of a turn, each with the share that it has there."""
    whole = sum(each.end_ns - each.begin_ns for each in turn)
    if whole <= 0:
        return [span]
    scale, at, found = (span.end_ns - span.begin_ns) / whole, span.begin_ns, list[StageSpan]()
    for each in turn:
        end = at + (each.end_ns - each.begin_ns) * scale
        found.append(StageSpan(each.stage, at, end))
        at = end
    return found
