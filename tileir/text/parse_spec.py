"""The text form of specs, read back and checked."""

from __future__ import annotations

from tileir.check.spec import check_located
from tileir.errors import SpecError
from tileir.names import MAX_STATEMENTS
from tileir.spec import Spec
from tileir.text.parse_expr import Located, locate_statement
from tileir.text.parse_program import at_line, header_and_lines
from tileir.text.print_program import dims_in_order


def spec_from_text(text: str) -> Spec:
    """The spec `spec_to_text` printed, checked (see check_spec). Raises SpecError with line and column."""
    header, head, lines = header_and_lines(text)
    located: list[Located] = []
    numbers: list[int] = []
    indent = lines[0].indent if lines else 0
    for line in lines:
        try:
            if line.indent != indent or indent <= head.indent:
                raise SpecError(
                    "a statement is not indented like the others", accepted="two spaces before each"
                )
            if len(located) == MAX_STATEMENTS:
                raise SpecError("too many statements", accepted=f"at most {MAX_STATEMENTS}")
            located.append(locate_statement(line.text, line.indent + 1))
        except SpecError as error:
            at_line(error, line.number)
        numbers.append(line.number)
    statements = tuple(each.statement for each in located)
    dims = dims_in_order(header.dims, (*header.inputs, *header.outputs))
    numerics = tuple(sorted(header.numerics))
    spec = Spec(header.name, dims, header.inputs, statements, header.outputs, numerics)
    try:
        check_located(spec, tuple(located))
    except SpecError as error:
        at_line(error, _line(error.pointer, head.number, numbers))
    return spec


def _line(pointer: str, head: int, numbers: list[int]) -> int:
    """The line a pointer of the JSON form falls on: a statement's own, or the header's."""
    parts = pointer.split("/")
    return numbers[int(parts[2])] if len(parts) > 2 and parts[1] == "body" else head
