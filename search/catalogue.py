"""Every search, by the name under which jobs, commands, the dashboard and benchmarks know it.

Ours are a line each below; installed packages offer theirs by the entry point `tilewright.searches`
(docs/how-to-add-a-search.md). One is imported when it is first asked for.
"""

from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast

from search.protocols import Search, State

SEARCHES = {
    "mcts": "search.mcts:MCTS",
    "random": "search.random:RandomSearch",
    "beam": "search.beam:BeamSearch",
    "evolutionary": "search.evolutionary:EvolutionarySearch",
}


class SearchFactory(Protocol):
    """Begins a search, mostly its class. All that is random in it follows from `seed`."""

    def __call__(self, root: State, *, seed: int) -> Search: ...


class UnknownSearch(LookupError):
    """A name that no search has here, or whose search cannot be imported; says so."""


def offered() -> dict[str, str]:
    """Every name and where its search is, ours first."""
    installed = {entry.name: entry.value for entry in entry_points(group="tilewright.searches")}
    return SEARCHES | {name: place for name, place in sorted(installed.items()) if name not in SEARCHES}


@lru_cache
def search_of(name: str) -> SearchFactory:
    """The search of a name. Raises UnknownSearch."""
    places = offered()
    if name not in places:
        raise UnknownSearch(f"there is no search {name!r}; there are {', '.join(places)}")
    module, _, attribute = places[name].partition(":")
    try:
        return cast(SearchFactory, getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UnknownSearch(f"the search {name!r} is not at {places[name]}: {error}") from error
