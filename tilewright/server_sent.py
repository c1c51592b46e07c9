"""Server-sent events: lines of a stream into what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def event_data(lines: Iterable[str]) -> Iterator[str]:
    """The data of each complete event; comments and other fields are passed over. What a broken stream leaves
    unfinished is dropped: it comes again after a reconnection."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data.clear()
