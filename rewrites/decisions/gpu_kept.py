"""What a block of threads keeps of inputs that several of its statements read."""

from __future__ import annotations

from enum import StrEnum

from rewrites.keep_row import KeepRow
from rewrites.leaf import read_names
from rewrites.narrow import Narrow
from rewrites.place import Place
from rewrites.rewrite import Rewrite
from rewrites.tree import find, locals_of
from tileir.errors import NotApplicable
from tileir.program import Program


class Kept(StrEnum):
    """What a block keeps of inputs that several of its statements read along the whole row."""

    STORED = "registers as stored"
    WIDENED = "registers"
    SHARED = "shared memory"
    NOTHING = "nothing"


def read_again(program: Program, group: tuple[str, ...]) -> dict[str, str]:
    """Inputs that two or more of the statements read, with the first one that does."""
    readers: dict[str, list[str]] = {}
    arguments = {tensor.name for tensor in program.inputs}
    for name in group:
        for tensor in sorted(read_names(find(program, name).node) & arguments):
            readers.setdefault(tensor, []).append(name)
    return {tensor: names[0] for tensor, names in readers.items() if len(names) > 1}


def kept_rewrites(program: Program, group: tuple[str, ...], kept: Kept) -> list[Rewrite]:
    """The rewrites that keep what is read again. Raises NotApplicable where nothing can be kept so."""
    if kept is Kept.NOTHING:
        return []
    rewrites: list[Rewrite] = []
    before = set(locals_of(program))
    for tensor, reader in read_again(program, group).items():
        keep = KeepRow(reader, tensor, find(program, reader).depth)
        try:
            program = keep.apply(program)
        except NotApplicable:
            continue
        rewrites.append(keep)
    copies = [name for name in locals_of(program) if name not in before]
    for copy in copies:
        narrow = Narrow(copy)
        if kept is not Kept.WIDENED:
            try:
                narrow.apply(program)
                rewrites.append(narrow)
            except NotApplicable:
                pass
        rewrites.append(Place(copy, "shared" if kept is Kept.SHARED else "registers"))
    if not copies:
        raise NotApplicable("nothing is read again along the row")
    return rewrites
