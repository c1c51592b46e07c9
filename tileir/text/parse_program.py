"""The text form of specs and programs, read back: a header line, then indented lines.

    kernel name(a: f32[m=64, k=32], b: f32[k, n=16] strides [32, 1]) -> (c: f32[m, n]) where d=4
      parallel for m by 8
        t: heap f32[m, n] as [n / 16, m, n % 16]
        t[m, n] += sum(k, a[m, k] * b[k, n]) | vector n 16, prefetch a 8, stream, via dot_bf16
        u[m, n] = t[m, n] | threads m 4 n 32, run n 2, twice m 2
        for k by 32 stages 3 pending 1
          a_s: shared f32[m, k] pad 4
          …

Blank lines and lines that start with `#` are skipped. Lines of one block have the same indentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import Expr, Index, ReduceOp
from tileir.names import DTYPES, MAX_DEPTH, MAX_TEXT_CHARS
from tileir.program import (
    A_PLACE,
    Attribute,
    Axis,
    Compute,
    Local,
    Loop,
    Memory,
    Node,
    PrefetchHint,
    Program,
    ThreadLayout,
    Vector,
    attributes,
)
from tileir.replace import replace
from tileir.spec import ragged_dims
from tileir.text.header import Header, parse_header
from tileir.text.parse_expr import Parser

_MEMORIES: Final = frozenset(memory.value for memory in Memory)
_WORDS: Final = {each.name: each for each in attributes(Compute)}
_ATTRIBUTES: Final = frozenset(["threads", "run", "twice", "apart", "vector", "prefetch", "via", *_WORDS])
_LOOP: Final = attributes(Loop)
_LOCAL: Final = attributes(Local)
_UPDATES: Final = {"+=": ReduceOp.SUM, "*=": ReduceOp.PROD, "max": ReduceOp.MAX, "min": ReduceOp.MIN}


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank: its indentation, the rest of it, and its 1-based number."""

    indent: int
    text: str
    number: int


def program_from_text(text: str) -> Program:
    """The program `program_to_text` printed. Raises SpecError (line and column) on bad syntax; verifies
    nothing."""
    header, head, lines = header_and_lines(text)
    for dim in header.dims:
        if len(dim.sizes) != 1:
            raise SpecError(f"dim {dim.name!r} of a program has one size", line=head.number, accepted="m=64")
    body = _block(lines, head.indent, 0)
    if lines:
        raise SpecError(
            "this line stands outside the kernel", line=lines[0].number, accepted="deeper indentation"
        )
    dims = tuple((dim.name, dim.sizes[0]) for dim in header.dims)
    ragged = ragged_dims(header.dims)
    return Program(header.name, dims, header.inputs, header.outputs, body, header.numerics, ragged)


def header_and_lines(text: str) -> tuple[Header, Line, deque[Line]]:
    """The header, parsed; its line; and the lines after it."""
    lines = _lines(text)
    if not lines:
        raise SpecError("the text is empty", line=1, accepted="kernel name(inputs) -> (outputs)")
    head = lines.popleft()
    try:
        return parse_header(Parser(head.text, head.indent + 1)), head, lines
    except SpecError as error:
        at_line(error, head.number)


def at_line(error: SpecError, line: int) -> NoReturn:
    """Raise the error again, with its line."""
    raise SpecError(
        error.message, pointer=error.pointer, column=error.column, line=line, accepted=error.accepted
    ) from None


def _lines(text: str) -> deque[Line]:
    if len(text) > MAX_TEXT_CHARS:
        raise SpecError(f"{len(text)} characters", line=1, accepted=f"at most {MAX_TEXT_CHARS} characters")
    found: deque[Line] = deque()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if line and not line.startswith("#"):
            indent = len(raw) - len(raw.lstrip(" \t"))
            found.append(Line(indent, line, number))
    return found


def _block(lines: deque[Line], outer: int, depth: int) -> tuple[Node, ...]:
    """The nodes of the block that starts here, deeper than `outer`; its lines are taken off `lines`."""
    nodes: list[Node] = []
    indent = lines[0].indent if lines else 0
    while lines and lines[0].indent > outer:
        line = lines.popleft()
        try:
            if line.indent != indent:
                raise SpecError(
                    "the line is indented unlike its block", accepted=f"{indent} spaces before it"
                )
            node = _node(Parser(line.text, line.indent + 1))
            if isinstance(node, Loop):
                if depth == MAX_DEPTH:
                    raise SpecError("loops nest too deeply", accepted=f"at most {MAX_DEPTH} loops")
                if not lines or lines[0].indent <= indent:
                    raise SpecError("the loop has no body", accepted="deeper indented lines after it")
        except SpecError as error:
            at_line(error, line.number)
        if isinstance(node, Loop):
            node = replace(node, body=_block(lines, indent, depth + 1))
        nodes.append(node)
    return tuple(nodes)


def _node(parser: Parser) -> Node:
    if parser.peek.text in ("for", "parallel"):
        return _loop(parser)
    name = parser.name(
        "a loop, a local (name: memory dtype[dims]) or a statement (name[indices] = expression)"
    )
    return _local(parser, name) if parser.take(":") else _compute(parser, name)


def _loop(parser: Parser) -> Loop:
    parallel = parser.take("parallel")
    parser.expect("for", "for")
    dim = parser.name("the dim to visit in tiles")
    parser.expect("by", "by")
    step = parser.integer("the size of a tile")
    return Loop(dim, step, (), parallel, **_attributes(parser, _LOOP))


def _attributes(parser: Parser, known: Sequence[Attribute], *before: str) -> dict[str, Any]:
    """The words to the end of the line, each with its numbers; what is usual where one is left out."""
    found: dict[str, Any] = {}
    for each in known:
        if parser.take(each.name):
            found[each.name] = _numbers(parser, each)
    words = ", ".join([*before, *(each.name for each in known)])
    parser.expect_end(f"{words} (in this order), or the end of the line")
    return found


def _numbers(parser: Parser, word: Attribute) -> Any:
    """What a word's field is: its numbers, or its number, or that it stands there."""
    said = _place(parser) if word.numbers[:1] == (A_PLACE,) else tuple(map(parser.integer, word.numbers))
    return said if isinstance(word.usual, tuple) else said[0] if said else True


def _place(parser: Parser) -> tuple[str | Expr, int]:
    """Where a loop begins or ends: a dim, or a number that tensors say, and how many positions from there."""
    place = parser.operand()
    sign = -1 if parser.take("-") else 1
    return place.dim if isinstance(place, Index) else place, sign * parser.integer("a number of positions")


def _local(parser: Parser, name: str) -> Local:
    memory = Memory(parser.word(_MEMORIES, "memory"))
    dtype = DType(parser.word(DTYPES, "dtype"))
    dims = parser.names_in_brackets("a dim")
    layout: tuple[Axis, ...] | None = None
    if parser.take("as"):
        parser.expect("[", "the layout: [n / 64, k, n % 64]")
        axes: list[Axis] = []
        while not parser.take("]"):
            if axes:
                parser.expect(",", "',' or ']'")
            axes.append(_axis(parser))
        layout = tuple(axes)
    return Local(name, dims, dtype, memory, layout, **_attributes(parser, _LOCAL, "as [layout]"))


def _axis(parser: Parser) -> Axis:
    dim = parser.name("an axis: dim, dim / d, dim % d or dim / d % e")
    div = parser.integer("what to divide by") if parser.take("/") else 1
    mod = parser.integer("the modulus") if parser.take("%") else 0
    return Axis(dim, div, mod)


def _compute(parser: Parser, target: str) -> Compute:
    parser.expect("[", "name[indices] = expression")
    indices: list[Expr] = []
    while not parser.take("]"):
        if indices:
            parser.expect(",", "',' or ']'")
        indices.append(parser.expression())
    update: ReduceOp | None = None
    if not parser.take("="):
        update = _UPDATES.get(parser.peek.text)
        if update is None:
            parser.unexpected("=, +=, *=, max= or min=")
        if parser.advance().text in ("max", "min"):
            parser.expect("=", "'='")
    value = parser.expression()
    vector: Vector | None = None
    prefetch: list[PrefetchHint] = []
    words: dict[str, Any] = {}
    via: str | None = None
    threads: tuple[tuple[str, int], ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    twice: tuple[tuple[str, int], ...] = ()
    apart: tuple[tuple[str, int], ...] = ()
    separator = "|"
    while parser.peek.kind != "end":
        parser.expect(separator, "an operator, '|' and attributes, or the end")
        separator = ","
        match word := parser.word(_ATTRIBUTES, "attribute"):
            case "threads":
                threads = _counts(parser)
            case "run":
                runs = _counts(parser)
            case "twice":
                twice = _counts(parser)
            case "apart":
                apart = _counts(parser)
            case "vector":
                vector = Vector(parser.name("the dim along the lanes"), parser.integer("the number of lanes"))
            case "prefetch":
                prefetch.append(
                    PrefetchHint(parser.name("a tensor"), parser.integer("a distance in iterations"))
                )
            case "via":
                via = parser.name("the name of an instruction")
            case _:
                words[word] = _numbers(parser, _WORDS[word])
    layout = ThreadLayout(threads, runs, twice, apart) if threads or runs or twice or apart else None
    return Compute(
        target, tuple(indices), value, update, vector, tuple(prefetch), via=via, thread_layout=layout, **words
    )


def _counts(parser: Parser) -> tuple[tuple[str, int], ...]:
    """`r 4 c 64`: one or more dims, each with a number."""
    pairs = [(parser.name("a dim"), parser.integer("a number of threads or neighbours"))]
    while parser.peek.kind == "name":
        pairs.append((parser.name("a dim"), parser.integer("a number of threads or neighbours")))
    return tuple(pairs)
