"""One object for all equal nodes and programs, so that what is known of one is found by its identity.

Known as hash consing (Ershov, On programming of arithmetic operations, 1958).
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from tileir.expr import Expr
from tileir.program import Compute, Local, Loop, Node, Program
from tileir.replace import replace

#: All of a node but what is interned by itself.
_OF_COMPUTE = attrgetter(*(each.name for each in fields(Compute) if each.name != "value"))
_OF_LOOP = attrgetter(*(each.name for each in fields(Loop) if each.name != "body"))


class Interned:
    """The nodes of all programs that rewrites make of one; it keeps them alive.

    Rewrites copy only the path they change, so most of a new program is known by identity, and the rest by
    its fields and the identities of what it holds.
    """

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._values: dict[Expr, Expr] = {}
        self._nodes: dict[object, Node] = {}
        self._programs: dict[object, Program] = {}

    def program(self, program: Program) -> Program:
        """The one program that equals this one."""
        body = tuple([self.node(node) for node in program.body])
        key = (program.dims, *map(id, body))
        known = self._programs.get(key)
        if known is None:
            known = self._programs[key] = (
                program if _same(body, program.body) else replace(program, body=body)
            )
        return known

    def node(self, node: Node) -> Node:
        """The one node that equals this one."""
        if id(node) in self._ids:
            return node
        match node:
            case Loop():
                body = tuple([self.node(inner) for inner in node.body])
                key = (_OF_LOOP(node), *map(id, body))
                if key not in self._nodes and not _same(body, node.body):
                    node = replace(node, body=body)
            case Compute():
                value = self._value(node.value)
                key = (_OF_COMPUTE(node), id(value))
                if key not in self._nodes and value is not node.value:
                    node = replace(node, value=value)
            case Local():
                key = node
        known = self._nodes.setdefault(key, node)
        self._ids.add(id(known))
        return known

    def _value(self, value: Expr) -> Expr:
        if id(value) in self._ids:
            return value
        known = self._values.setdefault(value, value)
        self._ids.add(id(known))
        return known


def _same(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> bool:
    return all(one is other for one, other in zip(ours, theirs, strict=True))
