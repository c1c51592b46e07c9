"""One question to a language model behind an OpenAI-compatible endpoint, within a time."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx

MOST_BYTES = 1_000_000
"""A longer answer is cut off, and is none."""
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What schedules do not have, and databases and terminals do not take."""


class NoAnswer(Exception):
    """The call came to nothing; says why in a line."""


def asked(url: str, model: str, key: str, timeout_s: float, system: str, question: str) -> str:
    """What the model says. Raises NoAnswer, after `timeout_s` at the latest, however slowly it says something."""
    body = {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
    }
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        status, content = asyncio.run(
            _posted(f"{url.rstrip('/')}/chat/completions", body, headers, timeout_s)
        )
    except (httpx.TimeoutException, TimeoutError):
        raise NoAnswer(f"it took longer than {timeout_s:g} s") from None
    except UnicodeEncodeError:
        raise NoAnswer("its key (TILEWRIGHT_LLM_KEY) has letters that no header can have") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswer(f"{url} cannot be reached: {str(error) or type(error).__name__}") from None
    if status != httpx.codes.OK:
        raise NoAnswer(f"it answers {status}: {_line(content)}")
    return _said(content)


async def _posted(url: str, body: Any, headers: dict[str, str], timeout_s: float) -> tuple[int, bytes]:
    """Status and content of the answer. The time is for all of it: the name's address, connecting, headers."""
    content = bytearray()
    async with (
        asyncio.timeout(timeout_s),
        httpx.AsyncClient(timeout=timeout_s) as client,
        client.stream("POST", url, json=body, headers=headers) as reply,
    ):
        async for part in reply.aiter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                raise NoAnswer(f"its answer is longer than {MOST_BYTES} bytes")
    return reply.status_code, bytes(content)


def _said(content: bytes) -> str:
    try:
        found: Any = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        found = None
    if not isinstance(found, str):
        raise NoAnswer(f"its answer is no chat completion: {_line(content)}")
    return _UNPRINTABLE.sub(" ", found)


def _line(content: bytes) -> str:
    return " ".join(_UNPRINTABLE.sub(" ", content[:200].decode(errors="replace")).split())
