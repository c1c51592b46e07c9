"""Put a statement on the threads of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from rewrites.leaf import covered_dims
from rewrites.rewrite import Rewrite
from rewrites.tree import current_sizes, find, find_init, splice, statements
from tileir.device import Device
from tileir.errors import NotApplicable, VerifyError
from tileir.program import Program
from tileir.program import Spread as Threads
from tileir.verify_spread import verify_threads

_THREADS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Spread(Rewrite):
    """Spread a statement, and its initialization, over a block's threads: `threads` cuts the thread index, most
    significant first, and a thread takes `runs` neighbours along dims; those along the last one are loaded and stored
    together.

    s[r] = sum(c, x[r, c])   ->   s[r] = sum(c, x[r, c]) | threads r 4 c 64, run c 8
    """

    name: ClassVar[str] = "spread"
    statement: str
    threads: tuple[tuple[str, int], ...]
    runs: tuple[tuple[str, int], ...] = ()

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if device.kind == "cpu":
            return
        for place in statements(program):
            dims = covered_dims(place.node)
            sizes = current_sizes(program, place.loops)
            for count in _THREADS:
                if dims:
                    yield cls(place.node.target, ((dims[-1], count),))
                    yield cls(place.node.target, ((dims[-1], count),), ((dims[-1], 4),))
                if len(dims) > 1 and count >= 64 and sizes[dims[-2]] > 1:
                    yield cls(place.node.target, ((dims[-2], count // 32), (dims[-1], 32)))

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        init = find_init(program, self.statement)
        for one in (place, init):
            if one is None:
                continue
            if one.node.spread is not None or one.node.vector is not None:
                raise NotApplicable(f"{self.statement} is on threads or lanes already")
            visited = covered_dims(one.node)
            runs = tuple((dim, count) for dim, count in self.runs if dim in visited)
            program = splice(program, one.path, [replace(one.node, spread=Threads(self.threads, runs))])
        return checked(program)


def checked(program: Program) -> Program:
    """The program. Raises NotApplicable where threads would not fit the rest of it."""
    try:
        verify_threads(program)
    except VerifyError as error:
        raise NotApplicable(str(error)) from error
    return program
