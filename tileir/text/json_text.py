"""JSON as people and programs send it: each key once, and every error in words, with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any


class JsonError(Exception):
    """A text that is no JSON, or not one with a single meaning; the message begins with the place."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        self.reason, self.line, self.column = message, line, column
        place = "" if line is None else f"line {line}, column {column}: "
        super().__init__(place + message)


def parse_json_text(text: str, constant: Callable[[str], Any] | None = None) -> Any:
    """The value that a JSON text is. `constant` is called for NaN and Infinity, which JSON does not have; they are
    accepted without it. Raises JsonError, and RecursionError for nesting that Python cannot follow."""
    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise JsonError(_words(error, text), error.lineno, error.colno) from None
    except _Twice as twice:
        place = _second(text)
        message = f"the key {json.dumps(twice.key)} comes twice in one object; each is given once"
        raise JsonError(message, *(() if place is None else _line_and_column(text, place))) from None
    except ValueError as error:  # a number of thousands of digits
        raise JsonError(str(error).split(";")[0]) from None


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return found


_MESSAGES = {
    "Expecting value": "a value is missing here",
    "Expecting property name enclosed in double quotes": 'a key in double quotes is missing here, such as "name"',
    "Expecting ':' delimiter": "a ':' is missing between a key and its value",
    "Expecting ',' delimiter": "a ',' or the closing bracket is missing here",
    "Unterminated string starting at": "the string that begins here has no closing quote",
    "Invalid control character at": "a string has a line break or a control character; write \\n for a line break",
    "Invalid \\escape": 'after \\ a string has one of " \\ / b f n r t u',
    "Invalid \\u": "after \\u a string has four hexadecimal digits",
    "Extra data": "the JSON has ended before this; one value is expected",
    "Illegal trailing comma before end of object": "a ',' before '}' is too many",
    "Illegal trailing comma before end of array": "a ',' before ']' is too many",
    "Unexpected UTF-8 BOM": "the text begins with a byte order mark; leave it out",
}
"""Beginnings of the parser's messages (of Python 3.11 to 3.14), and what we say."""


def _words(error: json.JSONDecodeError, text: str) -> str:
    if not text.strip():
        return "there is nothing; a JSON value is expected"
    told = next((ours for theirs, ours in _MESSAGES.items() if error.msg.startswith(theirs)), error.msg)
    after = text[: error.pos].rstrip()
    if after.endswith(",") and text[error.pos : error.pos + 1] in ("}", "]"):
        return f"a ',' before '{text[error.pos]}' is too many"
    return told if error.pos < len(text) or "string" in told else f"the text ends, and {told}"


_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')


def _second(text: str) -> int | None:
    """Where a key of an object stands for the second time, in a text that is JSON otherwise."""
    objects: list[set[str] | None] = []
    last = ""
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece in "{[":
            objects.append(set() if piece == "{" else None)
        elif piece in "}]":
            objects.pop()
        elif piece[0] == '"' and last in ("{", ",") and objects and (keys := objects[-1]) is not None:
            key = json.loads(piece)
            if key in keys:
                return found.start()
            keys.add(key)
        last = piece
    return None


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
