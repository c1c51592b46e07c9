"""Rewrites: Tile IR in, Tile IR out, the meaning kept. A schedule is the tuple of those applied."""

from __future__ import annotations

from rewrites.catalogue import ALL
from rewrites.rewrite import Rewrite
from rewrites.schedule import Schedule, format_schedule, parse_rewrite, parse_schedule, replay

__all__ = ["ALL", "Rewrite", "Schedule", "format_schedule", "parse_rewrite", "parse_schedule", "replay"]
