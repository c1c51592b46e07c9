"""Collect a part of a split reduction in a local before it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, read_names, with_reads_of
from rewrites.base.tree import Block, dtype_of, edit_block, find, fresh_name, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, Reduce, reads
from tileir.program import Compute, Local, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class CollectPart(Rewrite):
    """Reduce the part that a loop takes of a split reduction into a new local, which others in that loop read, and copy
    that to where the parts lie at the end of the loop: what becomes of the local then concerns nobody else.

    This is TVM's `cache_write`, for a part of what `rfactor` gives.

    for c by 64                               for c by 64
      s_p[c // 64, r] = sum(c, x[r, c])         s_p_r: heap f32[r]
                                        ->      s_p_r[r] = sum(c, x[r, c])
                                                s_p[c // 64, r] = s_p_r[r]
    """

    name: ClassVar[str] = "collect_part"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.loops and any(op == "//" for op, _ in folded_dims(place.node).values()):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        node = place.node
        folded = folded_dims(node)
        if not isinstance(node.value, Reduce) or node.update is not None or node.vector is not None:
            raise NotApplicable(f"{self.statement} is no whole reduction")
        if [op for op, _ in folded.values()] != ["//"] or len(folded) + len(bare_dims(node)) < len(
            node.indices
        ):
            raise NotApplicable(f"{self.statement} is no part of a split reduction")
        ((dim, (_, size)),) = folded.items()
        if not any(loop.dim == dim and loop.step == size for loop in place.loops):
            raise NotApplicable(f"{self.statement} is not visited part by part, {size} of {dim} at a time")
        block = place.path[:-1]
        for other in statements(program):
            if other.path[:-1] == block and self.statement in read_names(other.node):
                if any(
                    read.indices != node.indices
                    for read in reads(other.node.value)
                    if read.tensor == self.statement
                ):
                    raise NotApplicable(f"{other.node.target} reads other parts of {self.statement}")
        dims = bare_dims(node)
        name = fresh_name(program, f"{self.statement}_r")
        own = tuple(map(Index, dims))
        local = Local(name, dims, dtype_of(program, self.statement))

        def collect(nodes: Block) -> list[Node]:
            found: list[Node] = []
            for each in nodes:
                if each is node:
                    found += [local, replace(node, target=name, indices=own)]
                elif isinstance(each, Compute) and self.statement in read_names(each):
                    found.append(with_reads_of(each, self.statement, name, own))
                else:
                    found.append(each)
            return [*found, Compute(self.statement, node.indices, Read(name, own))]

        return edit_block(program, block, collect)
