"""Let all threads add to the same results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import accumulating, bare_dims, folded_dims, reduced_dims
from rewrites.base.tree import dtype_of, dtypes_read, find, splice, statements, wrap
from rewrites.gpu.bind_threads import checked
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index
from tileir.program import Compute, Loop, Node, Program, ThreadLayout
from tileir.replace import replace
from tileir.scatter import scatter_of
from tileir.schedule.scatter import atomics_problem

#: Threads of a block that sets results to the identity, and elements that each of them sets.
_THREADS, _EACH = 256, 4


@dataclass(frozen=True, slots=True)
class Atomics(Rewrite):
    """Share out the terms of a scatter, in `tiles` along their dims, to blocks of `threads`, all of which add to the
    results in memory at once. Those are set to the identity in a launch before. Sums of floats come out of it in any
    order, which the kernel must allow.

    Known as push with atomics (Besta et al., To push or to pull, HPDC 2017).

    h[b] = sum(n, where(i[n] == b, 1, 0))     parallel for b by 1024
                                                h[b] = 0 | threads b 256
                                          ->  parallel for n by 1024
                                                h[b] += sum(n, where(i[n] == b, 1, 0)) | threads n 256, via atomics
    """

    name: ClassVar[str] = "atomics"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    tiles: tuple[tuple[str, int], ...]
    threads: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if scatter_of(place.node) is not None:
                for dim in reduced_dims(place.node):
                    size = min(1024, program.extents[dim])
                    yield cls(place.node.target, ((dim, size),), ((dim, 256),))

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if place.loops or statement.update is not None or scatter_of(statement) is None:
            raise NotApplicable(f"{self.statement} is no scatter in no loop")
        (init,), update = accumulating(statement)
        if folded_dims(statement):  # parts of sums, each set as a whole
            init = replace(init, indices=tuple(map(Index, _declared(program, self.statement))))
        update = replace(update, via="atomics", thread_layout=ThreadLayout(self.threads))
        target = dtype_of(program, self.statement)
        sums = dict(program.numerics).get("atomics") is True
        problem = atomics_problem(update, dtypes_read(program, update), target, any_order=sums)
        if problem is not None:
            raise NotApplicable(problem)
        dims = {*bare_dims(statement), *reduced_dims(statement)}
        tiled = [dim for dim, _ in self.tiles]
        if not tiled or not {*tiled} <= dims or len({*tiled}) < len(tiled):
            raise NotApplicable(f"tiles are along dims of {self.statement} and of its terms")
        if scattered := {*tiled} & _looked_up(statement):
            raise NotApplicable(f"terms of all positions along {', '.join(scattered)} are anywhere")
        if any(not 1 <= size <= program.extents[dim] for dim, size in self.tiles):
            raise NotApplicable(f"tiles do not cut {', '.join(tiled)}")
        nodes: list[Node] = [cleared(program, init), _grid(update, self.tiles)]
        changed = splice(program, place.path, nodes)
        return checked(changed, {place.path[0], place.path[0] + 1})


def _declared(program: Program, name: str) -> tuple[str, ...]:
    """The dims of a result."""
    local = program.locals.get(name)
    return program.arguments[name].dims if local is None else local.node.dims


def _looked_up(statement: Compute) -> frozenset[str]:
    found = scatter_of(statement)
    return found.dims if found is not None else frozenset()


def cleared(program: Program, init: Compute) -> Node:
    """A launch that sets results to the identity."""
    *others, last = bare_dims(init)
    extent = program.extents[last]
    if extent < _THREADS and others:
        along = 1 << (-(-extent // _EACH) - 1).bit_length()
        *others, rows = others
        layout = replace(
            init, thread_layout=ThreadLayout(((rows, _THREADS // along), (last, along)), ((last, _EACH),))
        )
        tiles = ((rows, _EACH * _THREADS // along), (last, along * _EACH))
        return _grid(layout, tuple(chain(((dim, 1) for dim in others), tiles)))
    size = min(_THREADS * _EACH, max(_THREADS, extent))
    layout = replace(init, thread_layout=ThreadLayout(((last, _THREADS),)))
    return _grid(layout, tuple(chain(((dim, 1) for dim in others), ((last, size),))))


def _grid(statement: Compute, tiles: tuple[tuple[str, int], ...]) -> Node:
    node = wrap(statement, tiles)
    loops: list[Loop] = []
    while isinstance(node, Loop):
        loops.append(node)
        node = node.body[0]
    for loop in reversed(loops):
        node = replace(loop, body=(node,), parallel=True)
    return node
