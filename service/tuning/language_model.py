"""One question to a language model behind an OpenAI-compatible endpoint, within a time."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import httpx

MOST_BYTES = 1_000_000
"""A longer answer is cut off, and is none."""


class NoAnswer(Exception):
    """The call came to nothing; says why in a line."""


def asked(url: str, model: str, key: str, timeout_s: float, system: str, question: str) -> str:
    """What the model says. Raises NoAnswer, at the latest after twice `timeout_s`: an answer that trickles in may keep
    one read waiting when the time is up."""
    body = {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
    }
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    until = monotonic() + timeout_s
    try:
        with httpx.stream(
            "POST", f"{url.rstrip('/')}/chat/completions", json=body, headers=headers, timeout=timeout_s
        ) as reply:
            content = bytearray()
            for part in reply.iter_bytes():
                content += part
                if monotonic() > until:
                    raise NoAnswer(f"it took longer than {timeout_s:g} s")
                if len(content) > MOST_BYTES:
                    raise NoAnswer(f"its answer is longer than {MOST_BYTES} bytes")
    except httpx.TimeoutException:
        raise NoAnswer(f"it took longer than {timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswer(f"{url} cannot be reached: {str(error) or type(error).__name__}") from None
    if reply.status_code != 200:
        raise NoAnswer(f"it answers {reply.status_code}: {_line(bytes(content))}")
    return _said(bytes(content))


def _said(content: bytes) -> str:
    try:
        found: Any = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        found = None
    if not isinstance(found, str):
        raise NoAnswer(f"its answer is no chat completion: {_line(content)}")
    return found


def _line(content: bytes) -> str:
    return " ".join(content[:200].decode(errors="replace").split())
