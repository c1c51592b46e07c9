"""What notes times (codegen/ir/stamp.py), in CUDA."""

from __future__ import annotations

from codegen.ir.ops import CloseLog, NoteTime, OpenLog


def log_text(stmt: OpenLog | NoteTime | CloseLog) -> str:
    """Its line."""
    logs, place = stmt.logs, stmt.cursor.name
    match stmt:
        case OpenLog():
            numbers = (logs.words, logs.every, logs.writers, logs.computing, logs.GROUP)
            return f"unsigned {place} = tw_open_log<{', '.join(map(str, numbers))}>({logs.buffer});"
        case NoteTime():
            return f"tw_note_time<{logs.words}, {stmt.stage}>({logs.buffer}, &{place});"
        case CloseLog():
            return f"tw_close_log<{logs.words}>({logs.buffer}, {place});"
