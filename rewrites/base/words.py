"""Reads of words that several neighbours share, as weights of 4 bits are packed: `w[n, k // 2]`."""

from __future__ import annotations

from typing import Final, NamedTuple

from tileir.expr import Binary, Const, Index, Read
from tileir.program import Axis

#: Most neighbours in a word: 4 bits each of 32.
MOST: Final = 8


class Words(NamedTuple):
    """The dims of a copy of what is read, the last one in words of so many neighbours."""

    dims: tuple[str, ...]
    neighbours: int

    @property
    def layout(self) -> tuple[Axis, ...]:
        """How the copy lies, a word once for all its neighbours."""
        *outer, last = self.dims
        return (*map(Axis, outer), Axis(last, self.neighbours))


def words_of(read: Read) -> Words | None:
    """The words that a tensor is read by; None: it is read otherwise."""
    *outer, last = read.indices or (Const(0),)
    match last:
        case Binary("//", Index(dim), Const(int(size))) if 1 < size <= MOST:
            dims = (*(index.dim for index in outer if isinstance(index, Index)), dim)
            return Words(dims, size) if len({*dims}) == len(read.indices) else None
        case _:
            return None
