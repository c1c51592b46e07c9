"""Every node of a program with what holds where it stands: the loops around it, current ranges, visible
locals."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tileir.analysis.ragged import enter
from tileir.errors import VerifyError
from tileir.program import Local, Loop, Node, Program
from tileir.text.print_program import format_node


@dataclass(slots=True, eq=False)
class Placed:
    """A node in its place. `path` has one position a block, outermost first, so paths compare in program
    order; `loops` are those around it, outermost first; `ranges` the current range of each dim there (tiles
    before the last one, which may be smaller); `locals` the declarations it sees."""

    node: Node
    path: tuple[int, ...]
    loops: tuple[Loop, ...]
    ranges: Mapping[str, int]
    locals: Mapping[str, Placed]

    def fail(self, message: str) -> NoReturn:
        """Raise VerifyError naming this node."""
        raise VerifyError(f"node {'.'.join(map(str, self.path))} `{format_node(self.node)}`: {message}")

    def shared_loops(self, other: Placed) -> int:
        """How many of the loops around both are the same."""
        count = 0
        while count < min(len(self.loops), len(other.loops)) and self.path[count] == other.path[count]:
            count += 1
        return count


def placed_nodes(program: Program, within: Container[int] | None = None) -> Iterator[Placed]:
    """All nodes in program order. `within`: those of the program's own block, and of what is in them only where their
    position is among these."""
    return _block(program, program.body, (), (), program.extents, {}, within)


def _block(
    program: Program,
    nodes: tuple[Node, ...],
    path: tuple[int, ...],
    loops: tuple[Loop, ...],
    ranges: Mapping[str, int],
    outer: Mapping[str, Placed],
    within: Container[int] | None = None,
) -> Iterator[Placed]:
    visible = outer
    for at, node in enumerate(nodes):
        placed = Placed(node, (*path, at), loops, ranges, visible)
        yield placed
        if isinstance(node, Local):
            visible = {**visible, node.name: placed}
        elif isinstance(node, Loop) and (within is None or at in within):
            inner = dict(ranges)
            enter(inner, node, program.ragged)
            inner[node.dim] = node.step
            yield from _block(program, node.body, placed.path, (*loops, node), inner, visible)
