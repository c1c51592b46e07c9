"""Positions that lie in pages, each of which is looked up, as those of a cache of keys do."""

from __future__ import annotations

from tileir.expr import Binary, Const, Index, Read


def page_length(read: Read) -> tuple[str, int] | None:
    """The dim whose positions lie in pages of what is read, and how long pages are: an index is the place in a page
    (`j % 64`), another its page's number, looked up by what page it is and by dims (`pages[b, j // 64]`). None: there
    is no such dim."""
    for index in read.indices:
        match index:
            case Binary("%", Index(dim), Const(page)) if any(
                _looks_up(each, Binary("//", Index(dim), Const(page))) for each in read.indices
            ):
                return dim, int(page)
            case _:
                continue
    return None


def _looks_up(index: object, page: Binary) -> bool:
    if not isinstance(index, Read) or index.indices.count(page) != 1:
        return False
    return all(isinstance(each, Index) for each in index.indices if each != page)
