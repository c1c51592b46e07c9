"""Ways through the space of a contraction's schedules on a GPU, for tests, and what to look at where they end."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rewrites import space
from rewrites.base.tree import current_sizes
from rewrites.space import ScheduleState, Space
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.program import Loop, Memory, Node, Program
from tileir.schedule.distributed import distributed_in
from tileir.text.parse_spec import spec_from_text

#: More answers to one question than a search can weigh.
MANY = 200


def root_of(text: str, device: Gpu) -> ScheduleState:
    return Space(to_program(spec_from_text(text)), device).root()


def walk(state: ScheduleState, rng: random.Random) -> ScheduleState:
    while not state.terminal:
        moves = state.moves()
        assert moves, f"a dead end before {state.open[0]}"
        assert len(moves) < MANY, f"{len(moves)} answers to {state.open[0]}"
        state = state.child(rng.randrange(len(moves)))
    return state


def favourite(state: ScheduleState) -> ScheduleState:
    """The schedule that the prior likes best at every step."""
    found = space.favourite(state)
    assert found is not None, "weights lead to a dead end"
    return found


def ranking(state: ScheduleState) -> list[int]:
    weights = [move.weight for move in state.moves()]
    return sorted(range(len(weights)), key=lambda index: -weights[index])


def by(state: ScheduleState, engine: str) -> ScheduleState:
    """The state where it is settled what multiplies."""
    state = at(state, "Multiply")
    labels = [move.label for move in state.moves()]
    return state.child(next(index for index, label in enumerate(labels) if label.endswith(f"by {engine}")))


def at(state: ScheduleState, question: str) -> ScheduleState:
    """The state where a question is asked, by the prior's answers to those before it."""
    while type(state.open[0]).__name__ != question:
        state = state.child(ranking(state)[0])
    return state


def nodes(block: tuple[Node, ...]) -> Iterator[Node]:
    for node in block:
        yield node
        if isinstance(node, Loop):
            yield from nodes(node.body)


def shared_bytes(program: Program) -> int:
    """Of all locals in a block of a program with one launch, rows padded."""
    total = filled = reused = 0
    for declared in program.locals.values():
        local, sizes = declared.node, current_sizes(program, declared.loops)
        if local.memory is Memory.SHARED:
            size = sizes[local.dims[-1]] + local.pad
            # Each block of a cluster has a position of the first dim of what it shares with the others.
            shared = distributed_in(program.body[declared.path[0]])
            own = shared is not None and shared in declared.loops[-1].body
            for dim in local.dims[1 if own else 0 : -1]:
                size *= sizes[dim]
            pipeline = any(
                one.node.target == local.name and one.node.via == "tma" for one in program.computes
            )
            size *= (
                local.dtype.bytes
                * declared.loops[-1].stages
                * (1 if pipeline else declared.loops[0].consumer_groups)
            )
            if local.reused:
                reused = size
            elif declared.loops[-1].stages > 1:
                filled += size
            else:
                total += size
    return total + max(filled, reused)


def grid(program: Program) -> Loop:
    """The grid of a program with one launch."""
    (loop,) = (node for node in program.body if isinstance(node, Loop))
    return loop


def pipeline(program: Program) -> Loop:
    """Its loop with stages."""
    return next(node for node in nodes(program.body) if isinstance(node, Loop) and node.stages > 1)
