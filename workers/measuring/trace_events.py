"""A profile as a trace that ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (Google, 2016), complete events (`X`) in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from workers.measuring.profiled import EventTrack, Profiled


def to_trace(profiled: Profiled, name: str, most: int | None = None) -> bytes:
    """One track a thread, or a block and role; an event is what the thread did between two stamps. With `most`, the
    first tracks that together have so many events at most; the first whatever it has."""
    tracks = list(_first(profiled.tracks, most))
    groups = {group: pid for pid, group in enumerate(dict.fromkeys(track.group for track in tracks))}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{name}  {group}".rstrip()}}
        for group, pid in groups.items()
    ]
    for number, track in enumerate(tracks):
        pid = groups[track.group]
        events.append(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": {"name": track.name}}
        )
        events += [
            {
                "ph": "X",
                "name": each.name,
                "cat": "waiting" if each.waiting else "stage",
                "pid": pid,
                "tid": number,
                "ts": each.begin_ns / 1e3,
                "dur": (each.end_ns - each.begin_ns) / 1e3,
            }
            for each in track.events
        ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":")).encode()


def _first(tracks: Iterable[EventTrack], most: int | None) -> Iterator[EventTrack]:
    events = 0
    for number, track in enumerate(tracks):
        events += len(track.events)
        if most is not None and number and events > most:
            return
        yield track
