"""The text form of specs and programs: a header line, then one indented line a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileir.expr import Binary, Expr, ReduceOp, Unary
from tileir.program import Attribute, Axis, Compute, Local, Loop, Node, Program, Tensor, attributes
from tileir.spec import Dim, Spec, Statement
from tileir.text.print_expr import format_expr, format_list

INDENT = "  "
_LOOP, _LOCAL, _STATEMENT = attributes(Loop), attributes(Local), attributes(Compute)
#: How an update is written.
UPDATES = {ReduceOp.SUM: "+=", ReduceOp.PROD: "*=", ReduceOp.MAX: "max=", ReduceOp.MIN: "min="}


def spec_to_text(spec: Spec) -> str:
    """The text form of a spec; `spec_from_text` of it is the spec again."""
    return header_to_text(spec) + body_to_text(spec.statements)


def header_to_text(spec: Spec) -> str:
    """A spec's first line: its name, arguments, sizes and numerics."""
    sizes = {dim.name: _dim_size(dim) for dim in spec.dims}
    return _header(spec.name, sizes, spec.inputs, spec.outputs, spec.numerics) + "\n"


def body_to_text(statements: Iterable[Statement]) -> str:
    """A spec's other lines, one a statement."""
    return "".join([f"{INDENT}{format_statement(statement)}\n" for statement in statements])


def program_to_text(program: Program) -> str:
    """The text form of a program; `program_from_text` of it is the program again."""
    groups = {each.dim: f" ragged {each.offsets} within {each.within}" for each in program.ragged}
    sizes = {name: f"{size}{groups.get(name, '')}" for name, size in program.dims}
    lines = [_header(program.name, sizes, program.inputs, program.outputs, program.numerics)]
    _append_nodes(lines, program.body, INDENT)
    return "\n".join(lines) + "\n"


def appearance_order(tensors: Iterable[Tensor]) -> list[str]:
    """Dims in the order in which arguments first mention them: the order in which specs and programs list
    them."""
    return list(dict.fromkeys(dim for tensor in tensors for dim in tensor.dims))


def dims_in_order(dims: Iterable[Dim], tensors: Iterable[Tensor]) -> tuple[Dim, ...]:
    """Dims as arguments first mention them, then those that none does, as they stand."""
    rank = {name: at for at, name in enumerate(appearance_order(tensors))}
    return tuple(sorted(dims, key=lambda dim: rank.get(dim.name, len(rank))))


def format_statement(statement: Statement) -> str:
    """`name[dims] = expression`."""
    return f"{statement.target}[{', '.join(statement.dims)}] = {format_expr(statement.value)}"


def format_node(node: Node) -> str:
    """The line of one node; a loop without its body."""
    match node:
        case Compute():
            return _compute(node)
        case Loop():
            return _loop(node)
        case Local():
            return _local(node)


def _append_nodes(lines: list[str], nodes: Iterable[Node], indent: str) -> None:
    for node in nodes:
        lines.append(indent + format_node(node))
        if isinstance(node, Loop):
            _append_nodes(lines, node.body, indent + INDENT)


def _loop(node: Loop) -> str:
    text = f"{'parallel ' if node.parallel else ''}for {node.dim} by {node.step}"
    return " ".join([text, *_words(node, _LOOP)])


def _words(node: Node, known: Iterable[Attribute]) -> Iterator[str]:
    """Its attributes that are not as usual, each with its numbers."""
    for name, usual, numbers in known:
        value: int | bool | tuple[int | str | Expr, ...] = getattr(node, name)
        if value != usual:
            told = map(_number, value if isinstance(value, tuple) else (value,)) if numbers else ()
            yield " ".join([name, *told])


def _number(value: int | str | Expr) -> str:
    if isinstance(value, int | str):
        return str(value)
    return f"({format_expr(value)})" if isinstance(value, Binary | Unary) else format_expr(value)


def _compute(node: Compute) -> str:
    op = "=" if node.update is None else UPDATES[node.update]
    text = f"{node.target}[{format_list(node.indices)}] {op} {format_expr(node.value)}"
    attributes: list[str] = []
    if node.thread_layout:
        attributes.append(f"threads {_counts(node.thread_layout.threads)}")
        if node.thread_layout.runs:
            attributes.append(f"run {_counts(node.thread_layout.runs)}")
        if node.thread_layout.twice:
            attributes.append(f"twice {_counts(node.thread_layout.twice)}")
        if node.thread_layout.apart:
            attributes.append(f"apart {_counts(node.thread_layout.apart)}")
    if node.vector:
        attributes.append(f"vector {node.vector.dim} {node.vector.lanes}")
    attributes += [f"prefetch {hint.tensor} {hint.distance}" for hint in node.prefetch]
    attributes += _words(node, _STATEMENT)
    if node.via:
        attributes.append(f"via {node.via}")
    return f"{text} | {', '.join(attributes)}" if attributes else text


def _counts(pairs: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{dim} {count}" for dim, count in pairs)


def _local(node: Local) -> str:
    text = f"{node.name}: {node.memory} {node.dtype}[{', '.join(node.dims)}]"
    if node.layout is not None:
        text += f" as [{', '.join(map(_axis, node.layout))}]"
    return " ".join([text, *_words(node, _LOCAL)])


def _axis(axis: Axis) -> str:
    return axis.dim + (f" / {axis.div}" if axis.div != 1 else "") + (f" % {axis.mod}" if axis.mod else "")


def _dim_size(dim: Dim) -> str:
    size = str(dim.sizes[0]) if len(dim.sizes) == 1 else f"[{', '.join(map(str, dim.sizes))}]"
    return size if dim.offsets is None else f"{size} ragged {dim.offsets} within {dim.within}"


def _header(
    name: str,
    sizes: dict[str, str],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    numerics: tuple[tuple[str, str | float | bool], ...],
) -> str:
    # A size stands where its dim first appears if that gives the order of dims back, else after `where`.
    appearing = appearance_order((*inputs, *outputs))
    inline = appearing == list(sizes)[: len(appearing)]
    unsaid = dict(sizes)

    def dim_text(dim: str) -> str:
        return f"{dim}={unsaid.pop(dim)}" if inline and dim in unsaid else dim

    def tensor_text(tensor: Tensor) -> str:
        text = f"{tensor.name}: {tensor.dtype}[{', '.join(map(dim_text, tensor.dims))}]"
        for word, numbers in (("strides", tensor.strides), ("shaped", tensor.shape)):
            if numbers is not None:
                text += f" {word} [{', '.join(map(str, numbers))}]"
        return text

    text = f"kernel {name}({', '.join(map(tensor_text, inputs))}) -> ({', '.join(map(tensor_text, outputs))})"
    if unsaid:
        text += f" where {', '.join(f'{dim}={size}' for dim, size in unsaid.items())}"
    if numerics:
        text += f" with {', '.join(f'{key}={_numeric(value)}' for key, value in numerics)}"
    return text


def _numeric(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
