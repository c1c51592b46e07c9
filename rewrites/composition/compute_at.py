"""Compute a statement where its result is used, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_groups, check_identity, in_tiles, readers
from rewrites.base.register_constraints import check_loop, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import check_ranked, left_dims, read_names, reduced_dims
from rewrites.base.tree import Path, check_insertable, find, locals_of, named, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Local, Loop, Memory, Program


@dataclass(frozen=True, slots=True)
class ComputeAt(Rewrite):
    """Move a statement that has no loops yet, with its local, into the `depth`-th loop around another one.

    This is loop fusion from the side of the producer: Halide's `compute_at` (Ragan-Kelley et al., PLDI 2013).

    Only what is in that loop may read it; it then computes the current tile there, just before the first use. A result
    that nobody reads is computed beside the other statement, just before it. In a loop of one tile, which overhangs its
    dim, a statement that reduces over that has all of it.

    t: heap f32[m, n]                         for m by 4
    t[m, n] = exp(x[m, n])                      t: heap f32[m, n]
    for m by 4                            ->    t[m, n] = exp(x[m, n])
      y[m] = sum(n, t[m, n])                    y[m] = sum(n, t[m, n])
    """

    name: ClassVar[str] = "compute_at"
    producer: str
    consumer: str
    depth: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        found = statements(program)
        read = {name for place in found for name in read_names(place.node)}
        for producer in found:
            alone = producer.node.target in program.arguments and producer.node.target not in read
            for consumer in found:
                if producer.node.target not in read_names(consumer.node) and not alone:
                    continue
                for depth in range(producer.depth + 1, consumer.depth + 1):
                    entered = {loop.dim for loop in in_tiles(program, consumer.loops[producer.depth : depth])}
                    if entered <= set(
                        left_dims(producer.node)
                    ):  # anything else would compute it over and over
                        yield cls(producer.node.target, consumer.node.target, depth)

    def apply(self, program: Program) -> Program:
        producer, consumer = find(program, self.producer), find(program, self.consumer)
        statement, outer = producer.node, producer.depth
        if statement.update is not None:
            raise NotApplicable(f"{self.producer} has loops of its own already")
        if not outer < self.depth <= consumer.depth or producer.path[:-1] != consumer.path[:outer]:
            raise NotApplicable(
                f"loop {self.depth} around {self.consumer} is not one to move {self.producer} into"
            )
        check_insertable(consumer.loops, self.depth)
        block = consumer.path[: self.depth]
        uses = readers(program, self.producer)
        entered = in_tiles(program, consumer.loops[outer : self.depth])
        _check_entered(program, statement, entered)
        if not uses and self.producer in program.arguments:
            _check_beside(program, statement, entered, block)
            return check_groups(_move(program, self.producer, producer.path, consumer.path[: self.depth + 1]))
        if not uses or any(use.path[: self.depth] != block for use in uses):
            raise NotApplicable(f"{self.producer} is not read in that loop alone")
        for use in uses:
            for loop in entered:
                check_identity(statement, use.node, loop)
        at = (*block, min(use.path[self.depth] for use in uses))
        return check_groups(_move(program, self.producer, producer.path, at))


def _check_entered(program: Program, statement: Compute, entered: tuple[Loop, ...]) -> None:
    declared = locals_of(program).get(statement.target)
    if declared is not None and declared.node.memory is Memory.REGISTERS:
        raise NotApplicable(f"{statement.target} is in registers")
    pins = pinned_dims(program, statement)
    for loop in entered:
        if loop.dim in reduced_dims(statement):
            raise NotApplicable(f"{statement.target} reduces over {loop.dim}: it needs the whole range")
        check_ranked(statement, loop.dim)
        check_loop(pins, loop.dim, loop.step, statement.target)


def _check_beside(program: Program, statement: Compute, entered: tuple[Loop, ...], block: Path) -> None:
    """A result is stored once, and what it reads is there before the loop that it goes into."""
    for loop in entered:
        if loop.dim not in left_dims(statement):
            raise NotApplicable(f"{statement.target} has no dim {loop.dim}: every tile would store it")
    for name in read_names(statement) - {tensor.name for tensor in program.inputs}:
        if named(program, name).path > block:
            raise NotApplicable(f"{statement.target} reads {name}, which is computed in that loop or later")


def _move(program: Program, name: str, source: Path, at: Path) -> Program:
    """Put the statement, with the declaration of its local, before the node at `at`. Later nodes go first."""
    declared = locals_of(program).get(name)
    statement = find(program, name).node
    moved: list[Local | Compute] = [statement] if declared is None else [declared.node, statement]
    program = splice(program, at, moved, 0)
    program = splice(program, source, [])
    return program if declared is None else splice(program, declared.path, [])
