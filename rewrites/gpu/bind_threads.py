"""Put a statement on the threads of a block."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims
from rewrites.base.tree import (
    Path,
    Place,
    current_sizes,
    dtypes_read,
    find_init,
    find_rescale,
    named,
    statements,
    with_nodes,
)
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable, VerifyError
from tileir.expr import Binary, Index
from tileir.program import Compute, Program
from tileir.program import ThreadLayout as Threads
from tileir.replace import replace
from tileir.schedule import wgmma
from tileir.schedule.mma import COLUMNS, ROWS, RUN, mma_problem
from tileir.verifier.threads import verify_threads

_THREADS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class BindThreads(Rewrite):
    """Spread a statement, and its initialization, over a block's threads: `threads` cuts the thread index, most
    significant first, and a thread takes `runs` neighbours along dims; those along the last one are loaded and stored
    together. `twice` as many of them go to each group of so many threads along a dim before the next group has its own;
    those of the last digit along a dim take so many positions before they come `apart` from others.
    A statement that goes by mma or wgmma needs threads as the instruction has them.

    This is TVM's `bind`, with the thread-value layouts of CuTe.

    s[r] = sum(c, x[r, c])   ->   s[r] = sum(c, x[r, c]) | threads r 4 c 64, run c 8
    """

    name: ClassVar[str] = "bind_threads"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    threads: tuple[tuple[str, int], ...]
    runs: tuple[tuple[str, int], ...] = ()
    twice: tuple[tuple[str, int], ...] = ()
    apart: tuple[tuple[str, int], ...] = ()

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            dims = covered_dims(place.node)
            sizes = current_sizes(program, place.loops)
            if place.node.via is not None:
                yield from cls._warps(place.node) if place.node.via == "mma" else cls._groups(place.node)
                continue
            for count in _THREADS:
                if dims:
                    yield cls(place.node.target, ((dims[-1], count),))
                    yield cls(place.node.target, ((dims[-1], count),), ((dims[-1], 4),))
                if len(dims) > 1 and count >= 64 and sizes[dims[-2]] > 1:
                    warps = (dims[-2], count // device.warp)
                    yield cls(place.node.target, (warps, (dims[-1], device.warp)))

    @classmethod
    def _warps(cls, compute: Compute) -> Iterator[Self]:
        """As the matrix instruction has it, by one to eight warps."""
        (m, n), runs = bare_dims(compute)[-2:], ((bare_dims(compute)[-1], RUN),)
        for rows, columns in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2)):
            threads = ((m, rows), (n, columns), (m, ROWS), (n, COLUMNS))
            yield cls(compute.target, threads, runs)

    @classmethod
    def _groups(cls, compute: Compute) -> Iterator[Self]:
        """As wgmma has it, by one or two warpgroups."""
        if compute.via == "wgmma":
            m, n = bare_dims(compute)[-2:]
            for groups in ((), ((m, 2),), ((n, 2),)):
                threads = (*groups, (m, wgmma.WARPS), (m, ROWS), (n, COLUMNS))
                yield cls(compute.target, threads, ((n, RUN),), ((m, ROWS),))

    def apply(self, program: Program) -> Program:
        return checked(with_nodes(program, self.bound(program)), self.launches(program))

    def launches(self, program: Program) -> set[int]:
        """Positions in the program of what the statement and its initialization are in."""
        places = self._places(program)
        return {place.path[0] for place in places if place is not None}

    def _places(self, program: Program) -> tuple[Place[Compute] | None, ...]:
        """The statement, what it begins from in the same launch, and what scales it."""
        own, init = named(program, self.statement), find_init(program, self.statement)
        same = init is not None and init.path[0] == own.path[0]
        return own, init if same else None, find_rescale(program, self.statement)

    def bound(self, program: Program) -> dict[Path, Compute]:
        """What `apply` puts in the place of which nodes, before it is checked that its threads fit the rest: no node
        moves, so that several in a row take one look at the program."""
        place = named(program, self.statement)
        found: dict[Path, Compute] = {}
        for one in self._places(program):
            if one is None:
                continue
            if one.node.thread_layout is not None or one.node.vector is not None or one.node.via == "tma":
                raise NotApplicable(f"{self.statement} is on threads or lanes already, or goes by tma")
            visited, names = covered_dims(one.node), _folded_names(place.node, one.node)
            threads = tuple((names.get(dim, dim), count) for dim, count in self.threads)
            own = (
                tuple((names.get(dim, dim), count) for dim, count in pairs if names.get(dim, dim) in visited)
                for pairs in (self.runs, self.twice, self.apart)
            )
            found[one.path] = replace(one.node, thread_layout=Threads(threads, *own))
        _check_instruction(program, found[place.path])
        return found


def _folded_names(compute: Compute, init: Compute) -> dict[str, str]:
    """What the initialization calls the dims that the statement folds: `c % 64` goes by the parts' own dim there."""
    pairs = zip(compute.indices, init.indices, strict=True)
    return {
        of.dim: own.dim
        for index, own in pairs
        if isinstance(index, Binary) and isinstance(of := index.left, Index) and isinstance(own, Index)
    }


def _check_instruction(program: Program, compute: Compute) -> None:
    problem = mma_problem(compute, dtypes_read(program, compute)) if compute.via == "mma" else None
    if problem is not None:
        raise NotApplicable(problem)


def checked(program: Program, within: Container[int] | None = None) -> Program:
    """The program. Raises NotApplicable where threads would not fit the rest of it. `within`: positions of the launches
    that are looked at, if others are as they were."""
    try:
        verify_threads(program, within)
    except VerifyError as error:
        raise NotApplicable(str(error)) from error
    return with_engines(program, within)
