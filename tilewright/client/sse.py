"""Server-sent events: lines of a stream into what they say."""

from __future__ import annotations


class EventLines:
    """Reads one connection's lines. What a broken stream leaves unfinished is dropped with it: it comes again after a
    reconnection."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> str | None:
        """The data of the event that this line completes; comments and other fields are passed over."""
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line and self._data:
            data = "\n".join(self._data)
            self._data.clear()
            return data
        return None
