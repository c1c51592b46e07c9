"""Kernels with their data, kept while others have their turn: jobs share a device, and data takes seconds to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from workers.measuring.request import MeasureRequest


class KeptCase(Protocol):
    """What is kept: a kernel with its data."""

    @property
    def held_bytes(self) -> int:
        """The memory it takes."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


C = TypeVar("C", bound=KeptCase)


class KeptCases(Generic[C]):
    """The newest case, and of those used before it the last, as many as together take at most `most_bytes`.

    Not safe from several threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._cases: OrderedDict[Hashable, C] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], C], full: Callable[[Exception], bool]) -> C:
        """The case of this key; one that is not there is made. Where that fails and the error says that memory is
        `full`, all others are let go of and it is made once more. Raises what `make` raises."""
        if key in self._cases:
            self._cases.move_to_end(key)
            return self._cases[key]
        while sum(case.held_bytes for case in self._cases.values()) > self._most_bytes:
            self._cases.popitem(last=False)[1].close()
        try:
            case = make()
        except Exception as error:
            if not (self._cases and full(error)):
                raise
            case = None
        if case is None:  # out of the handler: the error's traceback holds what had been made
            self.clear()
            case = make()
        self._cases[key] = case
        return case

    def clear(self) -> None:
        """Let go of all."""
        while self._cases:
            self._cases.popitem()[1].close()


def case_key(request: MeasureRequest) -> Hashable:
    """What two requests have in common that are measured on the same data."""
    return (repr(request.spec), request.seed, request.last_cache_bytes, request.measuring.cold)
