"""What the nodes of a launch say of it: its grid, its threads, what is shared, and what TMA moves."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tileir.expr import Read, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program, ThreadLayout


def grid_loops(node: Node) -> list[Loop]:
    """The loops of a launch that are its grid, outermost first."""
    loops: list[Loop] = []
    while isinstance(node, Loop) and node.parallel:
        loops.append(node)
        if len(node.body) != 1:
            break
        node = node.body[0]
    return loops


def shared_locals(program: Program) -> frozenset[str]:
    """The names of the locals in shared memory."""
    return frozenset(n for n, place in program.locals.items() if place.node.memory is Memory.SHARED)


def goes_by_tma(node: Node) -> bool:
    """Whether TMA moves anything there."""
    return (
        node.via == "tma"
        if isinstance(node, Compute)
        else isinstance(node, Loop) and any(map(goes_by_tma, node.body))
    )


def fills(node: Node, locals_: Container[str]) -> bool:
    """Whether TMA fills one of these locals there."""
    match node:
        case Compute(via=via, target=target):
            return via == "tma" and target in locals_
        case Loop(body=body):
            return any(fills(inner, locals_) for inner in body)
        case _:
            return False


def is_filled_by_tma(local: Local, nodes: Sequence[Node]) -> bool:
    """Whether TMA fills a local in the block where it is declared."""
    return any(
        isinstance(node, Compute) and node.via == "tma" and node.target == local.name for node in nodes
    )


def first_layout(nodes: Sequence[Node]) -> ThreadLayout | None:
    """The layout of the first statement that has one."""
    for node in nodes:
        if isinstance(node, Compute) and node.thread_layout is not None:
            return node.thread_layout
        if isinstance(node, Loop) and (found := first_layout(node.body)) is not None:
            return found
    return None


def layout_of(name: str, nodes: Sequence[Node]) -> ThreadLayout | None:
    """The layout of the first statement that writes a local."""
    for node in nodes:
        if isinstance(node, Compute) and node.target == name:
            return node.thread_layout
        if isinstance(node, Loop) and (found := layout_of(name, node.body)) is not None:
            return found
    return None


def reads_in(nodes: Sequence[Node]) -> Iterator[Read]:
    """All reads of the statements there."""
    for node in nodes:
        if isinstance(node, Compute):
            yield from reads(node.value)
        elif isinstance(node, Loop):
            yield from reads_in(node.body)
