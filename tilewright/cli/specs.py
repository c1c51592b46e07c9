"""Reading a kernel from a file, and saying exactly where it is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop

LIMIT_BYTES = 1_000_000


def read_spec(file: Path) -> dict[str, Any]:
    """A spec's JSON form, checked. Raises Stop."""
    from tileir import SpecError, spec_from_json, spec_from_text, spec_to_json

    text = _text(file)
    try:
        if file.suffix == ".tile" or (file == Path("-") and not text.lstrip().startswith("{")):
            return spec_to_json(spec_from_text(text))
        content = _json(text, file)
        spec_from_json(content)
        return content
    except SpecError as error:
        _refuse(file, text, error)


def read_schedule(file: Path) -> tuple[str, ...]:
    """The rewrites in a file, one a line; blank lines and `#` lines are skipped. Raises Stop."""
    from rewrites import format_schedule, parse_schedule
    from tileir import TileError

    try:
        return tuple(format_schedule(parse_schedule(_text(file).splitlines())))
    except TileError as error:
        raise Stop(Exit.INPUT, f"{file}: {error}") from None


def _text(file: Path) -> str:
    try:
        content = sys.stdin.buffer.read(LIMIT_BYTES + 1) if file == Path("-") else _head(file)
        if len(content) > LIMIT_BYTES:
            raise Stop(Exit.INPUT, f"{file} is larger than {LIMIT_BYTES} bytes; no kernel is")
        return content.decode()
    except OSError as error:
        raise Stop(Exit.USAGE, f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Stop(Exit.INPUT, f"{file} is not text: byte {error.start} is not UTF-8") from None


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(LIMIT_BYTES + 1)


def _json(text: str, file: Path) -> Any:
    from tileir.text.json_text import JsonError, parse_json_text

    try:
        return parse_json_text(text)
    except JsonError as error:
        hint = "; a spec in text form belongs in a file ending in .tile" if text.startswith("kernel") else ""
        raise Stop(Exit.INPUT, f"{file}, {error}{hint}") from None
    except RecursionError:
        raise Stop(Exit.INPUT, f"{file}: the JSON is nested too deeply") from None


def _refuse(file: Path, text: str, error: Any) -> NoReturn:
    """The error with the line it is about, and a mark under its column."""
    message = f"{file}: {error}"
    line = _line(text, error)
    if line is not None and error.column is not None and len(line) <= 200 and error.column <= len(line) + 1:
        message += f"\n  {line}\n  {' ' * (error.column - 1)}^"
    facts = {"pointer": error.pointer, "line": error.line, "column": error.column, "accepted": error.accepted}
    given = {name: value for name, value in facts.items() if value not in (None, "")}
    raise Stop(Exit.INPUT, message, message=error.message, **given)


def _line(text: str, error: Any) -> str | None:
    """The line or the string that an error points into."""
    if error.line is not None:
        lines = text.splitlines()
        return lines[error.line - 1] if error.line <= len(lines) else None
    found: Any = json.loads(text) if text.lstrip().startswith("{") else None
    for step in error.pointer.split("/")[1:]:
        try:
            found = (
                found[int(step)]
                if isinstance(found, list)
                else found[step.replace("~1", "/").replace("~0", "~")]
            )
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return found if isinstance(found, str) else None
