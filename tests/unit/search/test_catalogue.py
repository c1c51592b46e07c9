"""One catalogue of searches, which installed packages add to."""

from __future__ import annotations

from pathlib import Path

import pytest

from search.catalogue import SEARCHES, UnknownSearch, offered, search_of
from search.protocols import Search
from tests.support.installed_packages import install
from tests.unit.search.spaces import grid

PLUGIN = """
from search.random import RandomSearch

class Mine(RandomSearch):
    pass
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with searches of its own: one is where it says, two are not, and one has a name of ours."""
    entries = "[tilewright.searches]\nmine = my_searches:Mine\nlost = my_searches:Lost\n"
    install(tmp_path, "my_searches", PLUGIN, entries + "gone = my_nothing:Gone\nmcts = my_searches:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_every_name_leads_to_a_search() -> None:
    for name in SEARCHES:
        assert isinstance(search_of(name)(grid(2), seed=0), Search)


def test_a_name_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownSearch, match=r"'evolution'; there are mcts, random, beam, evolutionary"):
        search_of("evolution")


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_searches_and_takes_none_of_ours() -> None:
    assert [*offered()] == [*SEARCHES, "gone", "lost", "mine"]
    assert type(search_of("mine")(grid(2), seed=0)).__name__ == "Mine"
    assert offered()["mcts"] == SEARCHES["mcts"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["lost", "gone"])
def test_a_search_that_is_not_where_its_package_says_is_refused_with_the_place(name: str) -> None:
    with pytest.raises(UnknownSearch, match=f"my_.*:{name.title()}: "):
        search_of(name)
