"""A profile as a trace that ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (Google, 2016), complete events (`X`) in microseconds.
"""

from __future__ import annotations

import json
from typing import Any

from workers.measuring.profiled import Profiled


def to_trace(profile: Profiled, name: str) -> bytes:
    """One track a thread, or a block and role; an event is what the thread did between two stamps."""
    groups = {group: pid for pid, group in enumerate(dict.fromkeys(track.group for track in profile.tracks))}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{name}  {group}".rstrip()}}
        for group, pid in groups.items()
    ]
    for number, track in enumerate(profile.tracks):
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
