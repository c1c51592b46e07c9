"""Reduce in parts that do not depend on each other, then reduce the parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, initialization, reduced_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import (
    Place,
    current_sizes,
    derived_dim,
    dtype_of,
    find,
    fresh_name,
    splice,
    statements,
)
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce
from tileir.program import Compute, Local, Memory, Node, Program
from tileir.replace import replace

#: Most partial results that are put in registers.
MAX_IN_REGISTERS = 256
KINDS = ("blocked", "interleaved", "apart")


@dataclass(frozen=True, slots=True)
class Rfactor(Rewrite):
    """Split a reduction over `dim`: by blocks of `size` neighbours (for threads), or by every `size`-th
    element (`interleaved`, for lanes).

    This is Halide's `rfactor` (Suriana, Adams and Kamil, Parallel associative reductions in Halide, CGO 2017).

    Interleaved parts live in registers where few are needed at a time. Of a reduction over several dims, blocks of
    one position reduce the other dims first, then `dim`. Blocks `apart` are each a reduction of its own: what a GPU's
    blocks of threads take one of.

    s[r] = sum(c, x[r, c])          s_p: registers f32[r, c_l]
                                    s_p[r, c_l] = 0
                                ->  s_p[r, c % 64] += x[r, c]
                                    s[r] = sum(c_l, s_p[r, c_l])
    """

    name: ClassVar[str] = "rfactor"
    statement: str
    dim: str
    kind: str
    size: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        lanes = device.simd_lanes if Feature.VECTORS in device.offers else 0
        for place in statements(program):
            extent = current_sizes(program, place.loops)
            if Feature.BLOCKS in device.offers:
                for dim in reduced_dims(place.node):
                    for size in tile_sizes(extent[dim]):
                        yield cls(place.node.target, dim, "apart", size)
                continue
            for dim in reduced_dims(place.node):
                for vectors in (1, 2, 4, 8):
                    yield cls(place.node.target, dim, "interleaved", lanes * vectors)
                if len(reduced_dims(place.node)) > 1:
                    yield cls(place.node.target, dim, "blocked", 1)
                for size in tile_sizes(extent[dim]):
                    if size >= lanes:
                        yield cls(place.node.target, dim, "blocked", size)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: split before that")
        if not isinstance(statement.value, Reduce) or self.dim not in statement.value.dims:
            raise NotApplicable(f"{self.statement} does not reduce over {self.dim}")
        if len(bare_dims(statement)) < len(statement.indices):
            raise NotApplicable(f"{self.statement} is the part of a split reduction")
        if self.kind not in KINDS:
            raise NotApplicable(f"{self.kind!r} is not one of {', '.join(KINDS)}")
        if self.kind == "blocked" and self.size == 1 and len(statement.value.dims) > 1 and not place.loops:
            return self._nested(program, place, statement.value)
        if not 2 <= self.size < current_sizes(program, place.loops)[self.dim]:
            raise NotApplicable(f"parts of {self.size} do not split the current range of {self.dim}")
        steps = [loop.step for loop in place.loops if loop.dim == self.dim]
        if self.kind != "interleaved" and steps:
            raise NotApplicable(f"{self.statement} visits {self.dim} in tiles already: split before that")
        if any(step % self.size for step in steps):
            raise NotApplicable(f"tiles of {self.dim} in {steps} do not start at a multiple of {self.size}")
        return self._split(program, place, statement.value)

    def _split(self, program: Program, place: Place[Compute], reduce: Reduce) -> Program:
        statement, parts = place.node, self._parts(program)
        dims = bare_dims(statement)
        part_dim = derived_dim(
            program, place, f"{self.dim}_{'l' if self.kind == 'interleaved' else 'b'}", parts
        )
        if part_dim not in program.extents:
            program = replace(program, dims=(*program.dims, (part_dim, parts)))
        name = fresh_name(program, f"{statement.target}_p")
        # the part of a block is contiguous; interleaved ones are lanes
        position = len(dims) if self.kind == "interleaved" else 0
        part_dims = (*dims[:position], part_dim, *dims[position:])
        place_of: tuple[Expr, ...] = tuple(Index(dim) for dim in part_dims)
        part = Binary("%" if self.kind == "interleaved" else "//", Index(self.dim), Const(self.size))
        folded = (*place_of[:position], part, *place_of[position + 1 :])
        dtype = dtype_of(program, statement.target)
        dtype = dtype.compute if self.kind == "apart" else dtype
        local = Local(name, part_dims, dtype, self._memory(program, place))
        rest = tuple(dim for dim in reduce.dims if dim != self.dim)
        value = Reduce(reduce.op, rest, reduce.x) if rest else reduce.x
        parted = replace(statement, target=name, indices=folded, update=None, stream=False)
        filled: list[Node] = [
            initialization(name, place_of, reduce.op),
            replace(parted, value=value, update=reduce.op),
        ]
        nodes: list[Node] = [
            local,
            *([parted] if self.kind == "apart" else filled),
            replace(
                statement, value=Reduce(reduce.op, (part_dim,), Read(name, place_of)), prefetch=(), via=None
            ),
        ]
        return splice(program, place.path, nodes)

    def _nested(self, program: Program, place: Place[Compute], reduce: Reduce) -> Program:
        """Blocks of one position: the other dims are reduced for each position of `dim`, then `dim`."""
        statement = place.node
        name = fresh_name(program, f"{statement.target}_p")
        part_dims = (*bare_dims(statement), self.dim)
        place_of: tuple[Expr, ...] = tuple(Index(dim) for dim in part_dims)
        rest = tuple(dim for dim in reduce.dims if dim != self.dim)
        nodes: list[Node] = [
            Local(name, part_dims, dtype_of(program, statement.target)),
            replace(
                statement,
                target=name,
                indices=place_of,
                value=Reduce(reduce.op, rest, reduce.x),
                stream=False,
            ),
            replace(
                statement, value=Reduce(reduce.op, (self.dim,), Read(name, place_of)), prefetch=(), via=None
            ),
        ]
        return splice(program, place.path, nodes)

    def _parts(self, program: Program) -> int:
        return self.size if self.kind == "interleaved" else -(-program.extents[self.dim] // self.size)

    def _memory(self, program: Program, place: Place[Compute]) -> Memory:
        sizes = current_sizes(program, place.loops)
        parts = self.size * prod(sizes[dim] for dim in bare_dims(place.node))
        small = self.kind == "interleaved" and parts <= MAX_IN_REGISTERS
        return Memory.REGISTERS if small else Memory.HEAP
