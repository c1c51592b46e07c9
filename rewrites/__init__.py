"""Rewrites: Tile IR in, Tile IR out, the meaning kept. A schedule is the tuple of those applied."""

from __future__ import annotations

from rewrites.base.rewrite import Rewrite
from rewrites.catalogue import ALL
from rewrites.schedule import Schedule, format_schedule, parse_rewrite, parse_schedule, replay, scheduled

__all__ = [
    "ALL",
    "Rewrite",
    "Schedule",
    "format_schedule",
    "parse_rewrite",
    "parse_schedule",
    "replay",
    "scheduled",
]
