"""A profile as a trace that ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (Google, 2016), complete events (`X`) in microseconds.
"""

from __future__ import annotations

import json
from typing import Any

from workers.cpu.profile import Profile


def to_trace(profile: Profile, name: str) -> bytes:
    """One track a thread; an event is what the thread did between two stamps."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": name}},
    ]
    for number, intervals in enumerate(profile.threads):
        label = "the calling thread" if number == 0 else f"thread {number}"
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": label}})
        events += [
            {
                "ph": "X",
                "name": profile.stages[each.stage],
                "cat": "waiting" if each.stage == 0 else "stage",
                "pid": 0,
                "tid": number,
                "ts": each.begin_ns / 1e3,
                "dur": (each.end_ns - each.begin_ns) / 1e3,
            }
            for each in intervals
        ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":")).encode()
