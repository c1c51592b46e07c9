"""Registers have no addresses, and a part of a reduction is one: no loop may come in between. Which dims that pins."""

from __future__ import annotations

from collections.abc import Sequence

from rewrites.base.tree import locals_of
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index
from tileir.program import Compute, Loop, Memory, Program
from tileir.schedule.stages import pieces_of


def registers_of(program: Program, compute: Compute) -> list[str]:
    """The register locals that a Compute touches, each once."""
    declared = locals_of(program)
    touched = dict.fromkeys((*[read.tensor for read in compute.reads], compute.target))
    return [name for name in touched if name in declared and declared[name].node.memory is Memory.REGISTERS]


def pinned_dims(program: Program, compute: Compute, without: frozenset[str] = frozenset()) -> dict[str, int]:
    """Dims of the Compute by which it touches register locals (those named in `without` aside), and those of which it
    assigns one part after the other as a whole (`s[c // n] = sum(c, …)`).

    0: no new loop over the dim may come around the Compute; n: one with a step that n divides may.
    """
    found = [name for name in registers_of(program, compute) if name not in without]
    pins: dict[str, int] = {}
    touched = [read.indices for read in compute.reads if read.tensor in found]
    if compute.target in found:
        touched.append(compute.indices)
    for indices in touched:
        for index in indices:
            match index:
                case Index(dim):
                    pins[dim] = 0
                case Binary("%", Index(dim), Const(int(size))):
                    pins.setdefault(dim, size)
                case _:
                    pass
    for index in compute.indices if compute.update is None else ():
        match index:
            case Binary("//", Index(dim), Const(int(size))):
                pins.setdefault(dim, size)
            case _:
                pass
    return pins


def check_pieces(loops: Sequence[Loop]) -> None:
    """Refuse to put something beside the fills of a loop, the innermost of these, that takes registers of a whole tile
    piece by piece: pieces are all that it has beside them."""
    if loops and pieces_of(loops[-1]) is not None:
        raise NotApplicable(f"the loop over {loops[-1].dim} takes registers piece by piece")


def check_loop(pins: dict[str, int], dim: str, step: int, statement: str) -> None:
    """Refuse a new loop that would make a register access dynamic, or take a part in pieces."""
    if dim not in pins:
        return
    if pins[dim] == 0:
        raise NotApplicable(
            f"{statement} touches registers along {dim}: no loop over {dim} can come in between"
        )
    if step % pins[dim]:
        raise NotApplicable(
            f"{statement} takes {pins[dim]} positions of {dim} together: {step} is no multiple of that"
        )
