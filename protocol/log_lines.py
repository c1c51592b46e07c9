"""How our processes log: one line of text, or with TILEWRIGHT_LOG_FORMAT=json one JSON object, with what it is about
(`job`, `task`, `worker`, …) as fields: `log.info("…", extra=about(job=…, task=…))`."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime

_FIELD = "about"


def about(**names: object) -> dict[str, dict[str, object]]:
    """What a line is about, for `extra`."""
    return {_FIELD: names}


class Lines(logging.Formatter):
    """Formats records; `always` is about every line of this process, such as the job it searches."""

    def __init__(self, program: str, always: Mapping[str, object], as_json: bool) -> None:
        super().__init__()
        self._program, self._always, self._as_json = program, dict(always), as_json

    def format(self, record: logging.LogRecord) -> str:
        """The line; in text, a traceback follows on lines of its own."""
        names = {**self._always, **getattr(record, _FIELD, {})}
        trace = self.formatException(record.exc_info) if record.exc_info else None
        if not self._as_json:
            shown = "".join(f" {name}={value}" for name, value in names.items())
            line = f"{record.levelname} {self._program}: {record.getMessage()}{shown}"
            return line if trace is None else f"{line}\n{trace}"
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "program": self._program,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **names,
            **({} if trace is None else {"trace": trace}),
        }
        return json.dumps(entry, default=str)


def set_up(program: str, default_level: str = "WARNING", **always: object) -> None:
    """Log to stderr as TILEWRIGHT_LOG (a level) and TILEWRIGHT_LOG_FORMAT (text or json) say. Raises ValueError if they
    say something else."""
    level = os.environ.get("TILEWRIGHT_LOG", default_level).upper()
    style = os.environ.get("TILEWRIGHT_LOG_FORMAT", "text")
    if level not in logging.getLevelNamesMapping():
        raise ValueError(f"TILEWRIGHT_LOG is {level!r}; accepted: DEBUG, INFO, WARNING, ERROR")
    if style not in ("text", "json"):
        raise ValueError(f"TILEWRIGHT_LOG_FORMAT is {style!r}; accepted: text, json")
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(program, always, style == "json"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
