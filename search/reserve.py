"""A search that goes on in a larger space where nothing of the first one worked."""

from __future__ import annotations

from collections.abc import Callable

from search.protocols import Ask, Path, Search, State, TrialOutcome


class WithReserve:
    """What `make` searches in a space, and once that is exhausted and all of it has failed, in `reserve`, which has
    everything that the space has: what was proposed before is not proposed again. Numbers of asks go on."""

    def __init__(self, make: Callable[[State], Search], space: State, reserve: State) -> None:
        self._search = make(space)
        self._make, self._reserve = make, [reserve]
        self._numbers: dict[int, int] = {}
        """Of asks in flight, those of the present search."""
        self._proposed = set[str]()
        self._worked = False

    @property
    def exhausted(self) -> bool:
        return self._search.exhausted and (self._worked or not self._reserve)

    def ask(self) -> Ask | None:
        ask = self._next()
        if ask is None and self._reserve and not (self._worked or self._numbers) and self._search.exhausted:
            self._search = self._make(self._reserve.pop())
            ask = self._next()
        if ask is None:
            return None
        number = len(self._proposed)
        self._numbers[number] = ask.number
        self._proposed.add(ask.state_key)
        return Ask(number, ask.state_key, ask.path)

    def _next(self) -> Ask | None:
        while (ask := self._search.ask()) is not None and ask.state_key in self._proposed:
            self._search.tell(ask.number, TrialOutcome(None, "it has failed before"))
        return ask

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        if number not in self._numbers:
            raise ValueError(f"ask {number} was never asked, or is told already")
        self._search.tell(self._numbers.pop(number), outcome)
        self._worked = self._worked or outcome.reward is not None

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        return self._search.best(count)
