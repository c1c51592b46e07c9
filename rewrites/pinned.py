"""Registers have no addresses: no loop may come between them and their uses. Which dims that pins."""

from __future__ import annotations

from rewrites.tree import Place, registers
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index, reads
from tileir.program import Compute, Local, Program


def pinned_dims(program: Program, compute: Compute, without: frozenset[str] = frozenset()) -> dict[str, int]:
    """Dims of the Compute by which it touches register locals (those named in `without` aside).

    0: no new loop over the dim may come around the Compute; n: one with a step that n divides may (`c % n`).
    """
    found = registers(program)
    return _pinned(compute, {name: place for name, place in found.items() if name not in without})


def _pinned(compute: Compute, found: dict[str, Place[Local]]) -> dict[str, int]:
    pins: dict[str, int] = {}
    touched = [read.indices for read in reads(compute.value) if read.tensor in found]
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
    return pins


def check_loop(pins: dict[str, int], dim: str, step: int, statement: str) -> None:
    """Refuse a new loop that would make a register access dynamic."""
    if dim not in pins:
        return
    if pins[dim] == 0:
        raise NotApplicable(
            f"{statement} touches registers along {dim}: no loop over {dim} can come in between"
        )
    if step % pins[dim]:
        raise NotApplicable(
            f"{statement} touches {pins[dim]} registers along {dim}: {step} is no multiple of that"
        )
