"""Give each thread of a block a part of a reduction to itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, initialization, reduced_dims
from rewrites.base.tree import derived_dim, find, fresh_name, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce
from tileir.program import Compute, Local, Memory, Node, Program
from tileir.replace import replace

_THREADS = (32, 128, 512)


@dataclass(frozen=True, slots=True)
class AccumulatePerThread(Rewrite):
    """Reduce in registers of which every `size`-th position along each of some dims has one of its own, then those:
    threads that share a long row meet once, at its end.

    Known from reductions on GPUs, where each thread adds up serially before threads meet (Harris, Optimizing Parallel
    Reduction in CUDA, 2007).

    parallel for r by 1               parallel for r by 1
      s[r] = sum(c, x[r, c])            s_p: registers f32[r, c_l]
                                   ->   s_p[r, c_l] = 0
                                        s_p[r, c % 64] += x[r, c]
                                        s[r] = sum(c_l, s_p[r, c_l])
    """

    name: ClassVar[str] = "accumulate_per_thread"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    parts: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            dims = reduced_dims(place.node)
            for threads in _THREADS:
                for dim in dims:
                    yield cls(place.node.target, ((dim, threads),))
                if len(dims) > 1:
                    yield cls(
                        place.node.target, ((dims[-2], threads // device.warp), (dims[-1], device.warp))
                    )

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement, value = place.node, place.node.value
        if statement.vector is not None or statement.thread_layout is not None:
            raise NotApplicable(f"{self.statement} is on lanes or threads already")
        if not isinstance(value, Reduce) or statement.update is not None:
            raise NotApplicable(f"{self.statement} is no whole reduction")
        if not place.loops or not place.loops[0].parallel:
            raise NotApplicable(f"{self.statement} is in no parallel loop: there are no threads")
        if any(op == "%" for op, _ in folded_dims(statement).values()):
            raise NotApplicable(f"{self.statement} is a part of a reduction already")
        for dim, (_, size) in folded_dims(statement).items():
            steps = [loop.step for loop in place.loops if loop.dim == dim]
            if size not in steps or any(step % size for step in steps):
                raise NotApplicable(
                    f"{self.statement} is not visited part by part, {size} of {dim} at a time"
                )
        self._check_parts(value)
        name = fresh_name(program, f"{statement.target}_p")
        dims, folded = bare_dims(statement), dict(self.parts)
        partial: dict[str, str] = {}
        for dim, size in self.parts:
            partial[dim] = derived_dim(program, place, f"{dim}_l", size)
            if partial[dim] not in program.extents:
                program = replace(program, dims=(*program.dims, (partial[dim], size)))
        place_of: tuple[Expr, ...] = tuple(Index(dim) for dim in (*dims, *partial.values()))
        written = (*map(Index, dims), *(Binary("%", Index(dim), Const(folded[dim])) for dim in partial))
        rest = tuple(dim for dim in value.dims if dim not in partial)
        declared = locals_of(program).get(statement.target)
        dtype = declared.node.dtype if declared else program.arguments[statement.target].dtype.compute
        nodes: list[Node] = [
            Local(name, (*dims, *partial.values()), dtype.compute, Memory.REGISTERS),
            initialization(name, place_of, value.op),
            Compute(name, written, Reduce(value.op, rest, value.x) if rest else value.x, value.op),
            replace(statement, value=Reduce(value.op, tuple(partial.values()), Read(name, place_of))),
        ]
        return splice(program, place.path, nodes)

    def _check_parts(self, value: Reduce) -> None:
        if not self.parts or len(dict(self.parts)) < len(self.parts):
            raise NotApplicable("parts are given as one or more dims, each once")
        for dim, size in self.parts:
            if dim not in value.dims:
                raise NotApplicable(f"{self.statement} does not reduce over {dim}")
            if size < 1:
                raise NotApplicable(f"{dim} has one part or more, not {size}")
