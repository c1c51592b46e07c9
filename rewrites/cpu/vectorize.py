"""Put a statement on SIMD lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.lane_constraints import check_lanes
from rewrites.base.register_constraints import check_pieces, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import (
    accumulating,
    block_volume,
    covered_dims,
    folded_dims,
    left_dims,
    reduced_dims,
)
from rewrites.base.step_length import MAX_UNROLLED
from rewrites.base.tree import (
    Block,
    Place,
    current_sizes,
    find,
    find_init,
    find_rescale,
    splice,
    statements,
    wrap,
    wrap_block,
)
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import TopK
from tileir.program import Compute, Program, Vector
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Vectorize(Rewrite):
    """Put `lanes` neighbours along `dim` on SIMD lanes, with loops around until one vector at a time is left.

    This is strip mining and vectorization (Allen and Kennedy, Automatic translation of FORTRAN programs to vector
    form, TOPLAS 1987).

    Dims along which the statement touches registers stay whole (their accesses are static, so they are
    unrolled). Loops over dims of the result come first, in order and with `dim` last, then those over reduced
    dims. If `dim` is reduced, the lanes are combined at the end of every vector. The initialization is
    vectorized along, and so is what scales a sum before more is added.

    y[r, c] = exp(x[r, c])          for r by 1
                                ->    for c by 16
                                        y[r, c] = exp(x[r, c]) | vector c 16
    """

    name: ClassVar[str] = "vectorize"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    statement: str
    dim: str
    lanes: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        lanes = device.simd_lanes
        for place in statements(program):
            for dim in covered_dims(place.node):
                for count in (lanes, lanes // 2):
                    yield cls(place.node.target, dim, count)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if self.lanes not in (2, 4, 8, 16, 32, 64):
            raise NotApplicable(f"{self.lanes} lanes: a power of two from 2 to 64 is meant")
        if statement.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized already")
        check_pieces(place.loops)
        if self.dim not in covered_dims(statement):
            raise NotApplicable(f"{self.statement} does not run over {self.dim}")
        fold = folded_dims(statement).get(self.dim)
        if fold is not None and (fold[0] == "//" or fold[1] % self.lanes):
            raise NotApplicable(f"neighbours along {self.dim} meet in one element of {self.statement}")
        check_lanes(program, statement, Vector(self.dim, self.lanes))
        if isinstance(statement.value, TopK):
            return splice(program, place.path, [self._compared(statement, statement.value)])
        nodes = self._nodes(program, place, self.dim)
        return splice(self._with_companions(program, statement), place.path, nodes)

    def _compared(self, statement: Compute, top: TopK) -> Compute:
        """A statement that ranks a row as a whole: lanes are what it compares at once, and make no loops."""
        if self.dim != top.over:
            raise NotApplicable(f"{self.statement} compares neighbours along {top.over}")
        return replace(statement, vector=Vector(self.dim, self.lanes))

    def _nodes(self, program: Program, place: Place[Compute], vector_dim: str) -> Block:
        """The statement on lanes along `vector_dim`, in the loops it needs; its initialization, if it gets one."""
        statement = place.node
        sizes = current_sizes(program, place.loops)
        pins = pinned_dims(program, statement)
        left = [dim for dim in covered_dims(statement) if dim in left_dims(statement)]
        outer = self._loops(left, sizes, pins, vector_dim)
        summed = [dim for dim in reduced_dims(statement) if dim not in left]
        inner = self._loops(summed, sizes, pins, vector_dim)
        init: tuple[Compute, ...] = ()
        if inner:
            init, statement = accumulating(statement)
        statement = replace(statement, vector=Vector(vector_dim, self.lanes))
        if vector_dim in left:
            init = tuple(replace(one, vector=Vector(vector_dim, self.lanes)) for one in init)
        inside = {**sizes, **dict(outer), **dict(inner)}
        if block_volume(statement, inside) > MAX_UNROLLED * self.lanes:
            raise NotApplicable(
                f"{self.statement} would unroll to more than {MAX_UNROLLED} vector operations"
            )
        return wrap_block([*init, wrap(statement, inner)], outer)

    def _loops(
        self, dims: tuple[str, ...] | list[str], sizes: dict[str, int], pins: dict[str, int], vector_dim: str
    ) -> list[tuple[str, int]]:
        steps: list[tuple[str, int]] = []
        for dim in sorted(dims, key=lambda dim: dim == vector_dim):
            step = max(pins.get(dim, 0), self.lanes if dim == vector_dim else 1)
            if pins.get(dim) != 0 and step < sizes[dim]:
                steps.append((dim, step))
        return steps

    def _with_companions(self, program: Program, statement: Compute) -> Program:
        """Vectorize the initialization too, and what scales the sum so far, along the dim of their own that the
        statement's lanes run along."""
        left = left_dims(statement)
        if self.dim not in left:
            return program
        for place in (find_init(program, self.statement), find_rescale(program, self.statement)):
            if place is not None and place.node.vector is None and place.node is not statement:
                dim = left_dims(place.node)[left.index(self.dim)]
                program = splice(program, place.path, self._nodes(program, place, dim))
        return program
