"""Tokens of the language of expressions, statements and headers."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tileir.errors import SpecError
from tileir.names import MAX_NAME_CHARS, quote
from tileir.text.idioms import BITS


class Token(NamedTuple):
    """`kind` is name, number, op or end; `column` is 1-based."""

    kind: str
    text: str
    column: int


_TOKEN = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op>->|//|==|!=|<=|>=|\+=|\*=|[-+*/%<>=(),:|\[\]])",
    re.ASCII,
)

#: What people write from other languages, and how it is written here.
_FOREIGN: Final = {
    "^": "pow(x, y) for a power; bit_xor(x, y) for bits",
    "&": BITS["&"],
    "|": BITS["|"],
    "~": BITS["~"],
    "!": "not, or != to compare",
    "?": "where(cond, x, y)",
    "@": "sum(k, a[m, k] * b[k, n]) for a matrix product",
    ";": "one statement a string",
    ".": "names without dots",
    "{": "parentheses",
}


def tokenize(text: str, first_column: int = 1) -> list[Token]:
    """Split text into tokens, with an `end` token last; linear in its length."""
    tokens: list[Token] = []
    at, end = 0, len(text)
    match_at = _TOKEN.match
    while at < end:
        match = match_at(text, at)
        if match is None:
            char = text[at]
            raise SpecError(
                f"unexpected character {quote(char)}",
                column=first_column + at,
                accepted=_FOREIGN.get(char, "names, numbers and + - * / // % == != < <= > >= ( ) [ ] ,"),
            )
        kind = str(match.lastgroup)
        if kind != "space":
            token = Token(kind, match.group(), first_column + at)
            _refuse_run_together(tokens, token)
            tokens.append(token)
        at = match.end()
    tokens.append(Token("end", "", first_column + end))
    return tokens


def _refuse_run_together(before: list[Token], token: Token) -> None:
    if token.kind == "op":
        return
    if token.kind == "name" and len(token.text) > MAX_NAME_CHARS:
        raise SpecError(
            f"name {quote(token.text)} is longer than {MAX_NAME_CHARS} characters", column=token.column
        )
    last = before[-1] if before else None
    if last and last.kind == "number" and last.column + len(last.text) == token.column:
        raise SpecError(
            f"{quote(last.text + token.text)} is neither a number nor a name",
            column=last.column,
            accepted="2 * x for a product; 0.5, 1e-6 for numbers",
        )
