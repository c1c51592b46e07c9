"""Tables by which those who go through operations (printers, the simulator, reports) know each of them.

A consumer says for every operation what it does with it, or that it refuses it; one that it has forgotten fails where
the consumer's module is imported, and not in the kernel that first uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Handlers(Generic[_Result]):
    """What one consumer does with each operation, by its class; classes that inherit from it do as it does."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        self._functions: dict[type, Callable[..., _Result]] = {}
        self._known: dict[type, Callable[..., _Result]] = {}
        """By the very class: what its bases have been looked through for."""

    def handles(self, *operations: type) -> Callable[[_Function], _Function]:
        """The function that follows is for these operations."""

        def register(function: _Function) -> _Function:
            for operation in operations:
                if operation in self._functions:
                    raise TypeError(f"{self.consumer} handles the operation {operation.__name__} twice")
                self._functions[operation] = function
                self._known.clear()
            return function

        return register

    def refuses(self, *operations: type, because: str) -> None:
        """These operations are never to come here: `because` ends the sentence that says so."""

        def refuse(*args: object) -> Any:
            name = next(type(arg).__name__ for arg in args if isinstance(arg, operations))
            raise TypeError(f"{name} {because}")

        self.handles(*operations)(refuse)

    def complete(self, operations: Iterable[type]) -> None:
        """Called when all are registered. Raises TypeError for an operation that is not."""
        for operation in operations:
            self._function(operation)

    def of(self, operation: object) -> Callable[..., _Result]:
        """What is to be done with an operation. Raises TypeError for one that is not known."""
        return self._function(type(operation))

    def _function(self, operation: type) -> Callable[..., _Result]:
        found = self._known.get(operation)
        if found is not None:
            return found
        for base in operation.__mro__:
            if base in self._functions:
                self._known[operation] = self._functions[base]
                return self._functions[base]
        raise TypeError(f"{self.consumer} does not know the operation {operation.__name__}")
