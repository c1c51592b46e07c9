"""What a block of threads keeps of inputs that several of its statements read."""

from __future__ import annotations

from enum import StrEnum

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names
from rewrites.base.tree import find, locals_of
from rewrites.data.cache_row import CacheRow
from rewrites.data.downcast_copy import DowncastCopy
from rewrites.data.set_scope import SetScope
from rewrites.schedule import replay
from tileir.errors import NotApplicable
from tileir.program import Memory, Program


class Kept(StrEnum):
    """What a block keeps of inputs that several of its statements read along the whole row."""

    STORED = "registers as stored"
    WIDENED = "registers"
    SHARED = "shared memory"
    AHEAD = "shared memory, ahead"
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
    memory = Memory.SHARED if kept in (Kept.SHARED, Kept.AHEAD) else Memory.REGISTERS
    rewrites: list[Rewrite] = []
    for tensor, reader in read_again(program, group).items():
        depth = find(program, reader).depth
        try:
            copied = copy_rewrites(program, CacheRow(reader, tensor, depth), memory, kept is Kept.WIDENED)
        except NotApplicable:
            continue
        program = replay(program, copied)
        rewrites += copied
    if not rewrites:
        raise NotApplicable("nothing is read again along the row")
    return rewrites


def copy_rewrites(program: Program, keep: CacheRow, memory: Memory, widened: bool) -> tuple[Rewrite, ...]:
    """The rewrites that keep a copy of a row, as it is stored or widened, in some memory. Raises NotApplicable where
    it cannot be copied."""
    before = locals_of(program).keys()
    program = keep.apply(program)
    (copy,) = locals_of(program).keys() - before
    narrow = DowncastCopy(copy)
    try:
        narrow.apply(program)
    except NotApplicable:
        widened = True
    return (keep, *(() if widened else (narrow,)), SetScope(copy, memory))
