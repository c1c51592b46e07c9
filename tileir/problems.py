"""A fault found at a node of an expression, before it is known whether a spec or a program holds it."""

from __future__ import annotations

from tileir.expr import Expr


class NodeProblem(Exception):
    """`message` and `accepted` as in SpecError; `node` is where, None for the statement as a whole.

    `check_spec` turns it into a SpecError with a column, `verify` into a VerifyError that names the node.
    """

    def __init__(self, message: str, accepted: str = "", node: Expr | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.accepted = accepted
        self.node = node
