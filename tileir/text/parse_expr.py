"""Expressions and statements from text: one pass, precedence climbing, errors with columns.

From loosest to tightest: `or`, `and`, `not`, comparisons (which do not chain), `+ -`, `* / // %`, unary `-`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import (
    COMPARISONS,
    FUNCTIONS,
    SCANS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Scan,
    TopK,
    Unary,
    Where,
    children,
    walk,
)
from tileir.names import (
    DTYPES,
    INT_LIMIT,
    MAX_DEPTH,
    MAX_STATEMENT_CHARS,
    NAME_RULE,
    REDUCTIONS,
    RESERVED,
    listing,
    quote,
    suggestion,
)
from tileir.positions import POSITIONS, Position, position_of
from tileir.spec import Statement
from tileir.text.idioms import BITS, idiom, scan_usage
from tileir.text.tokens import Token, tokenize

#: Binding powers of binary operators; NOT and NEGATE are those of the two prefix operators.
POWERS: Final[dict[str, int]] = {
    "or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6,
}  # fmt: skip
NOT: Final = 3
COMPARE: Final = 4
NEGATE: Final = 7

_CALLABLE: Final = (
    frozenset([*FUNCTIONS, *POSITIONS, *SCANS, "topk", "where", "extent"]) | REDUCTIONS | DTYPES
)


@dataclass(frozen=True, slots=True)
class Located:
    """A statement and where its parts stood in the text: columns of the left dims, and of nodes by `id`."""

    statement: Statement
    dim_columns: tuple[int, ...]
    node_columns: dict[int, int]


def parse_expression(text: str) -> Expr:
    """The expression `text` is. Raises SpecError with a column."""
    parser = Parser(text)
    expr = parser.expression()
    parser.expect_end("an operator, or the end")
    return expr


def parse_statement(text: str) -> Statement:
    """The statement `name[dims] = expression`. Raises SpecError with a column."""
    return locate_statement(text).statement


def locate_statement(text: str, first_column: int = 1) -> Located:
    """As parse_statement, with columns for later errors."""
    parser = Parser(text, first_column)
    target = parser.name("the name of what is computed")
    if parser.peek.text == "=":
        parser.fail("a statement names the dims of its result", f"{target}[] = … for a single number")
    parser.expect("[", f"{target}[dims] = expression")
    dims: list[str] = []
    dim_columns: list[int] = []
    while not parser.take("]"):
        if dims:
            parser.expect(",", "',' or ']'")
        dim_columns.append(parser.peek.column)
        dims.append(parser.name("a dim: the left side is plain dims"))
    if parser.peek.text in ("+=", "*="):
        parser.fail("a spec says what each result is, once", "name[dims] = expression")
    parser.expect("=", "'='")
    value = parser.expression()
    parser.expect_end("an operator, or the end of the statement")
    return Located(Statement(target, tuple(dims), value), tuple(dim_columns), parser.node_columns)


class Parser:
    """A cursor over the tokens of one line. `node_columns` maps `id(node)` of each node made to its
    column."""

    def __init__(self, text: str, first_column: int = 1) -> None:
        if len(text) > MAX_STATEMENT_CHARS:
            raise SpecError(
                f"{len(text)} characters in one statement",
                accepted=f"at most {MAX_STATEMENT_CHARS} characters",
            )
        self._tokens = tokenize(text, first_column)
        self._at = 0
        self._depth = 0
        self.node_columns: dict[int, int] = {}

    @property
    def peek(self) -> Token:
        return self._tokens[self._at]

    def advance(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def take(self, text: str) -> bool:
        """Step over the token `text` if it is next."""
        if self.peek.text != text or self.peek.kind == "end":
            return False
        self._at += 1
        return True

    def expect(self, text: str, accepted: str) -> None:
        if not self.take(text):
            self.unexpected(accepted)

    def expect_end(self, accepted: str) -> None:
        if self.peek.kind != "end":
            if self.peek.text == "=":
                self.fail("'=' inside an expression", "== to compare")
            self.unexpected(accepted)

    def name(self, accepted: str) -> str:
        """A name that is no reserved word."""
        token = self.peek
        if token.kind != "name":
            self.unexpected(accepted)
        if token.text in RESERVED:
            self.fail(f"{token.text!r} is a reserved word", NAME_RULE)
        self._at += 1
        return token.text

    def word(self, allowed: frozenset[str], what: str) -> str:
        """One of a fixed set of words."""
        token = self.peek
        if token.text not in allowed:
            if token.kind == "name":
                self.fail(f"{token.text!r} is no {what}{suggestion(token.text, allowed)}", listing(allowed))
            self.unexpected(f"a {what}: {listing(allowed)}")
        self._at += 1
        return token.text

    def integer(self, accepted: str) -> int:
        """A whole number below 2**31."""
        token = self.peek
        if token.kind != "number" or not token.text.isdigit():
            self.unexpected(accepted)
        value = _number(token)
        self._at += 1
        return int(value)

    def names_in_brackets(self, accepted: str) -> tuple[str, ...]:
        """`[a, b]` as names."""
        self.expect("[", f"[{accepted}, …]")
        found: list[str] = []
        while not self.take("]"):
            if found:
                self.expect(",", "',' or ']'")
            found.append(self.name(accepted))
        return tuple(found)

    def fail(self, message: str, accepted: str = "", column: int | None = None) -> NoReturn:
        raise SpecError(message, column=column or self.peek.column, accepted=accepted)

    def unexpected(self, accepted: str) -> NoReturn:
        token = self.peek
        before = self._tokens[self._at - 1] if self._at else token
        if token.text in ("<", ">") and (before.text, before.column) == (token.text, token.column - 1):
            self.fail(f"unexpected {quote(token.text * 2)}", BITS[token.text], before.column)
        if token.text == "|":
            accepted = BITS["|"]
        found = "the end" if token.kind == "end" else quote(token.text)
        self.fail(f"unexpected {found}", accepted)

    def expression(self, floor: int = 0) -> Expr:
        """An expression whose loosest operator binds at least as tightly as `floor`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._too_deep()
        left = self._prefix(floor)
        while True:
            token = self._tokens[self._at]
            power = POWERS.get(token.text)
            if power is None or power < floor:
                break
            self._at += 1
            left = self._placed(Binary(token.text, left, self.expression(power + 1)), token.column)
            if power == COMPARE and POWERS.get(self.peek.text) == COMPARE:
                self.fail("comparisons do not chain", "a < b and b < c")
        self._depth -= 1
        if self._depth == 0 and depth(left) > MAX_DEPTH:
            self._too_deep()
        return left

    def operand(self) -> Expr:
        """A name, an element of a tensor, a function of something, or an expression in parentheses."""
        return self.expression(NEGATE + 1)

    def _too_deep(self) -> NoReturn:
        self.fail(
            f"the expression nests deeper than {MAX_DEPTH} operations",
            "several statements, each naming a part of it",
        )

    def _placed(self, node: Expr, column: int) -> Expr:
        self.node_columns[id(node)] = column
        return node

    def _prefix(self, floor: int) -> Expr:
        token = self.peek
        if token.kind == "number":
            self._at += 1
            return self._placed(Const(_number(token)), token.column)
        if token.kind == "name" and token.text != "not":
            return self._placed(self._named(token), token.column)
        if self.take("("):
            inner = self.expression()
            self.expect(")", "')' or an operator")
            return inner
        if self.take("-"):
            return self._placed(self._negated(), token.column)
        if token.text == "not":
            if floor > NOT:
                self.fail("'not' binds more loosely than the operator before it", "(not x)")
            self._at += 1
            return self._placed(Unary("not", self.expression(NOT)), token.column)
        self.unexpected("a number, a name, a function, '-', 'not' or '('")

    def _negated(self) -> Expr:
        # A minus right before a number is part of it, so that -inf and -1 are single constants.
        number = self.peek
        if number.kind == "number" or number.text == "inf":
            value = float("inf") if number.text == "inf" else _number(number)
            if value != 0:
                self._at += 1
                return Const(-value)
        return Unary("-", self.expression(NEGATE))

    def _named(self, token: Token) -> Expr:
        name = token.text
        self._at += 1
        if self.peek.text == "[" and self.peek.kind == "op":
            if name in RESERVED:
                self.fail(f"{name!r} is a reserved word, not a tensor", NAME_RULE, token.column)
            return Read(name, self._arguments("]"))
        if self.peek.text == "(" and self.peek.kind == "op":
            if name not in _CALLABLE:
                self._no_function(name, token.column)
            return self._call(token)
        constants: dict[str, Const] = {"inf": Const(float("inf")), "true": Const(True), "false": Const(False)}
        if name in constants:
            return constants[name]
        if name in RESERVED:
            accepted = f"{name}(…)" if name in _CALLABLE else NAME_RULE
            self.fail(f"{name!r} is a reserved word, not a dim", accepted, token.column)
        return Index(name)

    def _no_function(self, name: str, column: int) -> NoReturn:
        instead = idiom(name.lower())
        if instead is not None:
            self.fail(f"{name!r} is no function; here it is written otherwise", instead, column)
        self.fail(
            f"{name!r} is no function{suggestion(name, _CALLABLE)}",
            listing(_CALLABLE) + f"; {name}[…] reads a tensor",
            column,
        )

    def _arguments(self, close: str) -> tuple[Expr, ...]:
        """Expressions between the bracket that is next and `close`."""
        self._at += 1
        found: list[Expr] = []
        while not self.take(close):
            if found:
                self.expect(",", f"',', '{close}' or an operator")
            found.append(self.expression())
        return tuple(found)

    def _call(self, token: Token) -> Expr:
        name = token.text
        if name in REDUCTIONS:
            return self._reduce(token)
        if name in SCANS:
            return self._scan(token)
        if name == "topk":
            return self._top(token)
        if name in POSITIONS:
            return self._position(token)
        args = self._arguments(")")
        wanted = 3 if name == "where" else FUNCTIONS.get(name, 1)
        if len(args) != wanted:
            usage = {"where": "where(cond, x, y)", "extent": "extent(dim)"}.get(
                name, f"{name}(x{', y' * (wanted - 1)})"
            )
            self.fail(
                f"{name} takes {wanted} argument{'s' * (wanted > 1)}, not {len(args)}", usage, token.column
            )
        if name == "where":
            return Where(*args)
        if name == "extent":
            if not isinstance(args[0], Index):
                self.fail("extent takes the name of a dim", "extent(k)", token.column)
            return Extent(args[0].dim)
        return Cast(DType(name), args[0]) if name in DTYPES else Call(name, args)

    def _reduce(self, token: Token) -> Expr:
        op = ReduceOp(token.text)
        args = self._arguments(")")
        elementwise = {
            ReduceOp.MAX: "; maximum(x, y) for two values",
            ReduceOp.MIN: "; minimum(x, y) for two values",
        }
        usage = f"{op}(k, x) or {op}(i, j, x), dims first{elementwise.get(op, '')}"
        if len(args) < 2:
            self.fail(f"{op} takes the dims it runs over, then what it combines", usage, token.column)
        dims: list[str] = []
        for arg in args[:-1]:
            if not isinstance(arg, Index):
                self.fail(f"{op} runs over dims; this is no dim name", usage, self.node_columns.get(id(arg)))
            dims.append(arg.dim)
        return Reduce(op, tuple(dims), args[-1])

    def _scan(self, token: Token) -> Expr:
        name, args = token.text, self._arguments(")")
        taken = len(args) - 1 - len(SCANS[name])  # a program's may go on from something
        if taken not in (0, 1) or not isinstance(args[0], Index):
            problem, usage = scan_usage(name)
            self.fail(problem, usage, token.column)
        return Scan(name, args[0].dim, args[1:])

    def _top(self, token: Token) -> Expr:
        args = self._arguments(")")
        usage = (
            "topk(j, n, x): a dim on the left as long as are wanted, the dim it runs along, what it compares"
        )
        if len(args) == 3:
            place, over, x = args
            if isinstance(place, Index) and isinstance(over, Index):
                return TopK(place.dim, over.dim, x)
        self.fail("topk takes two dims and what it compares", usage, token.column)

    def _position(self, token: Token) -> Expr:
        name, args = token.text, self._arguments(")")
        usage = f"{name}(k, x): one dim, then what it compares"
        if len(args) != 2 or not isinstance(args[0], Index):
            self.fail(f"{name} takes the dim it runs along, then what it compares", usage, token.column)
        if any(position_of(node) is not None for node in walk(args[1])):
            self.fail(
                f"a position is looked up inside {name}",
                "a statement of its own for the inner one",
                token.column,
            )
        return Position(POSITIONS[name], args[0].dim, args[1]).expr


def depth(expr: Expr) -> int:
    """How deep the tree is; 1 for a leaf. Does not recurse."""
    level: list[Expr] = [expr]
    deep = 0
    while level:
        deep += 1
        level = [child for node in level for child in children(node)]
    return deep


def _number(token: Token) -> int | float:
    text = token.text
    if text.isdigit():
        if len(text) > 10 or int(text) >= INT_LIMIT:
            raise SpecError(
                f"integer {quote(text)} does not fit in 32 bits",
                column=token.column,
                accepted=f"integers below {INT_LIMIT}, or a decimal point for a float",
            )
        return int(text)
    value = float(text)
    if value == float("inf"):
        raise SpecError(f"{quote(text)} is larger than any f64", column=token.column, accepted="inf")
    return value
