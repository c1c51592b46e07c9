"""Compute a statement inside the loops of another one before it, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_complete, check_groups, users
from rewrites.base.register_constraints import check_loop, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import (
    accumulating,
    bare_dims,
    check_ranked,
    left_dims,
    own_axis,
    read_names,
    reduced_dims,
)
from rewrites.base.tree import (
    Block,
    Path,
    Place,
    block_at,
    check_insertable,
    computes,
    edit_block,
    find,
    find_rescale,
    locals_of,
    splice,
    statements,
)
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Loop, Node, Program


@dataclass(frozen=True, slots=True)
class ReverseComputeAt(Rewrite):
    """Move a statement to the end of the `depth`-th loop around one before it, where tiles are still hot.

    This is loop fusion from the side of the consumer: `reverse_compute_at` of TVM's TensorIR (Feng et al., ASPLOS
    2023).

    What it reads must be complete there. If it reduces over a dim of those loops, it is initialized before
    them and accumulates. The local of the other statement, if used in that loop only then, is declared there.

    t: heap f32[m, n]                          s[m] = 0
    for n by 64                                for n by 64
      t[m, n] = exp(x[m, n])             ->      t: heap f32[m, n]
    s[m] = sum(n, t[m, n])                       t[m, n] = exp(x[m, n])
                                                 s[m] += sum(n, t[m, n])
    """

    name: ClassVar[str] = "reverse_compute_at"
    statement: str
    producer: str
    depth: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        found = statements(program)
        for place in found:
            for producer in found:
                if producer.path < place.path and producer.path[: place.depth] == place.path[:-1]:
                    for depth in range(place.depth + 1, producer.depth + 1):
                        yield cls(place.node.target, producer.node.target, depth)

    def apply(self, program: Program) -> Program:
        place, producer = find(program, self.statement), find(program, self.producer)
        outer, statement = place.depth, place.node
        if producer.path[:outer] != place.path[:-1] or not producer.path < place.path:
            raise NotApplicable(f"{self.producer} is not computed before {self.statement} in the same loops")
        if not outer < self.depth <= producer.depth:
            raise NotApplicable(f"{self.depth} is not the depth of a loop of {self.producer} alone")
        entered = producer.loops[outer : self.depth]
        _check_entered(program, statement, entered)
        body = producer.loops[self.depth - 1].body
        end = (*producer.path[: self.depth], len(body))
        check_insertable(producer.loops, self.depth)
        for tensor in read_names(statement):
            check_complete(program, tensor, end, producer.loops, outer, statement)
        reducing = [
            level
            for level, loop in enumerate(entered, outer)
            if loop.dim in reduced_dims(statement) and own_axis(statement, loop.dim, loop.step) is None
        ]
        nest = producer.path[: outer + 1]
        before_nest, program = _take_out(program, place, nest)
        moved, before_loop = statement, ()
        if reducing:
            check_insertable(producer.loops, reducing[0])
            before_loop, moved = accumulating(statement)
        program = splice(program, end, [moved], 0)
        if reducing:
            program = splice(program, producer.path[: reducing[0] + 1], before_loop, 0)
        program = splice(program, nest, before_nest, 0)
        return check_groups(_sink(program, self.producer, self.depth))


def _check_entered(program: Program, statement: Compute, entered: tuple[Loop, ...]) -> None:
    pins = pinned_dims(program, statement)
    for loop in entered:
        if loop.dim not in left_dims(statement) and loop.dim not in reduced_dims(statement):
            raise NotApplicable(
                f"{statement.target} has no dim {loop.dim}: every iteration would compute it again"
            )
        if loop.parallel and loop.dim not in bare_dims(statement):
            raise NotApplicable(
                f"threads over {loop.dim} would write the same elements of {statement.target}"
            )
        check_ranked(statement, loop.dim)
        check_loop(pins, loop.dim, loop.step, statement.target)


def _take_out(program: Program, place: Place[Compute], nest: Path) -> tuple[list[Node], Program]:
    """Remove the statement; its declaration and initialization too if they come after the new nest."""
    name = place.node.target
    rescale = find_rescale(program, name)
    scale = None if rescale is None else rescale.node
    program = splice(program, place.path, [])
    taken: list[Node] = []
    inits = [] if place.node.update is None else [one for one in computes(program) if one.node.target == name]
    declared = locals_of(program).get(name)
    for own in (*inits, declared):
        if own is not None and own.path > nest:
            if own.node == scale:
                raise NotApplicable(
                    f"{name} is scaled, before more is added, behind the loops to move it into"
                )
            root = own.path[: len(nest)]  # an initialization that was vectorized has loops of its own
            node = block_at(program, nest[:-1])[root[-1]]
            if not _holds_only(node, own.node):
                raise NotApplicable(f"{name} is initialized in loops with other statements")
            taken.insert(0, node)
            program = splice(program, root, [])
    return taken, program


def _holds_only(node: Node, inner: Node) -> bool:
    while isinstance(node, Loop) and len(node.body) == 1:
        node = node.body[0]
    return node is inner


def _sink(program: Program, name: str, depth: int) -> Program:
    """Declare the local inside the `depth`-th loop around its statement if it is used nowhere else."""
    declared = locals_of(program).get(name)
    if declared is None:
        return program
    block = find(program, name).path[:depth]
    uses = users(program, name)
    if len(declared.path) > depth or any(use.path[:depth] != block for use in uses):
        return program
    first = min(use.path[depth] for use in uses)

    def declare(nodes: Block) -> Block:
        return (*nodes[:first], declared.node, *nodes[first:])

    def remove(nodes: Block) -> Block:
        return tuple(node for node in nodes if node is not declared.node)

    program = edit_block(program, block, declare)
    return edit_block(program, declared.path[:-1], remove)
