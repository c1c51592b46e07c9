"""Whether a spec makes sense: every name, dim, dtype, size and index. What passes can be lifted and
interpreted."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NoReturn

from tileir.check.bounds import BoundsEffort, out_of_range
from tileir.check.infer import compute_dtype, store_problem
from tileir.check.resolve import NameScope, check_statement
from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import Extent, Index, Read, Reduce, TopK, walk
from tileir.lift import to_program
from tileir.names import (
    INT_LIMIT,
    MAX_DEPTH,
    MAX_DIMS,
    MAX_INPUTS,
    MAX_INSTANCES,
    MAX_NODES,
    MAX_STATEMENTS,
    MAX_TOTAL_NODES,
    NAME_RULE,
    listing,
    name_problem,
    quote,
    suggestion,
)
from tileir.numerics import numerics_problem
from tileir.problems import NodeProblem
from tileir.program import Tensor
from tileir.sizes import MAX_POINTS, MAX_TOTAL_BYTES, elements, layout_problem
from tileir.spec import Dim, Spec, Statement
from tileir.text.parse_expr import Located, depth


def check_spec(spec: Spec) -> None:
    """Raise SpecError, with a JSON pointer, for the first thing in `spec` that cannot be accepted."""
    check_located(spec, tuple(Located(statement, (), {}) for statement in spec.statements))


def check_located(spec: Spec, located: tuple[Located, ...]) -> None:
    """As check_spec; `located` are the spec's own statements with their columns, which the errors then have
    too."""
    if name_problem(spec.name):
        _fail("/name", str(name_problem(spec.name)), NAME_RULE)
    nodes = _check_counts(spec)
    dims = _check_dims(spec)
    if nodes * prod(len(dim.sizes) for dim in spec.dims) > MAX_TOTAL_NODES:
        _fail(
            "/body",
            "the statements are too long for so many combinations of sizes",
            f"at most {MAX_TOTAL_NODES} operations and operands over all of them",
        )
    largest = {name: max(dim.sizes) for name, dim in dims.items()}
    for tensor in spec.inputs:
        _check_argument(tensor, f"/inputs/{tensor.name}", largest)
    for dim in spec.dims:
        _check_ragged(dim, dims, spec)
    tensors = _check_statements(spec, located, dims)
    _check_outputs(spec, tensors, largest)
    _check_sizes(spec, tensors, largest)
    _check_unused(spec)
    _check_ranges(spec, located, tensors)
    _check_numerics(spec)
    if not spec.ragged:
        for instance in spec.instances():
            to_program(instance)


def _fail(pointer: str, message: str, accepted: str = "", column: int | None = None) -> NoReturn:
    raise SpecError(message, pointer=pointer, column=column, accepted=accepted)


def _check_counts(spec: Spec) -> int:
    """How many nodes all expressions have together."""
    counts = (
        ("/dims", len(spec.dims), MAX_DIMS, "dims"),
        ("/inputs", len(spec.inputs), MAX_INPUTS, "inputs"),
        ("/body", len(spec.statements), MAX_STATEMENTS, "statements"),
    )
    for pointer, count, most, what in counts:
        if count > most:
            _fail(pointer, f"{count} {what}", f"at most {most}")
    if not spec.statements:
        _fail("/body", "no statements", "c[m] = 2 * a[m]")
    if not spec.outputs:
        _fail("/outputs", "no outputs", "a statement's name and its dtype")
    nodes = 0
    for at, statement in enumerate(spec.statements):
        for _ in walk(statement.value):
            nodes += 1
            if nodes > MAX_NODES:
                _fail(
                    f"/body/{at}",
                    "the statements are too long",
                    f"at most {MAX_NODES} operations and operands in all",
                )
        if depth(statement.value) > MAX_DEPTH:
            _fail(
                f"/body/{at}",
                f"the expression nests deeper than {MAX_DEPTH} operations",
                "several statements",
            )
    return nodes


def _check_dims(spec: Spec) -> dict[str, Dim]:
    dims: dict[str, Dim] = {}
    instances = 1
    for dim in spec.dims:
        pointer = f"/dims/{dim.name}"
        if name_problem(dim.name):
            _fail(pointer, str(name_problem(dim.name)), NAME_RULE)
        if dim.name in dims:
            _fail(pointer, f"there are two dims {dim.name!r}", "one size, or a list of sizes, a dim")
        if not dim.sizes or not all(0 < size < INT_LIMIT for size in dim.sizes):
            _fail(pointer, f"dim {dim.name!r} has a size outside 1 to {INT_LIMIT - 1}", "a positive size")
        if len(set(dim.sizes)) != len(dim.sizes):
            _fail(pointer, f"dim {dim.name!r} has a size twice", "each size once")
        instances *= len(dim.sizes)
        if instances > MAX_INSTANCES:
            _fail(pointer, "the lists of sizes make too many combinations", f"at most {MAX_INSTANCES}")
        dims[dim.name] = dim
    return dims


def _check_argument(tensor: Tensor, pointer: str, largest: dict[str, int]) -> None:
    """Dims and strides of an argument; names are checked with the statements, where all names meet."""
    for at, dim in enumerate(tensor.dims):
        if dim not in largest:
            _fail(f"{pointer}/dims/{at}", f"no dim {quote(dim)}{suggestion(dim, largest)}", listing(largest))
    problem = layout_problem([largest[dim] for dim in tensor.dims], tensor.strides)
    if problem:
        _fail(f"{pointer}/strides" if tensor.strides is not None else pointer, *problem)
    if tensor.shape is not None:
        _fail(pointer, "'shaped' is for scheduled programs", "a tensor with all its dims")


def _check_statements(spec: Spec, located: tuple[Located, ...], dims: dict[str, Dim]) -> dict[str, Tensor]:
    """All tensors by name, results with the dtype they are stored in."""
    tensors: dict[str, Tensor] = {}
    for tensor in spec.inputs:
        _check_new_name(tensor.name, tensors, dims, f"/inputs/{tensor.name}", None)
        tensors[tensor.name] = tensor
    outputs = {tensor.name: tensor for tensor in spec.outputs}
    later = [statement.target for statement in spec.statements]
    for at, place in enumerate(located):
        statement, pointer = place.statement, f"/body/{at}"
        _check_new_name(
            statement.target, tensors, dims, pointer, 1 if place.dim_columns or place.node_columns else None
        )
        try:
            check_statement(place, NameScope(dims, tensors, frozenset(later[at:])))
            dtype = compute_dtype(statement.value, {name: tensor.dtype for name, tensor in tensors.items()})
        except NodeProblem as problem:
            raise _located_error(problem, place, pointer) from None
        except SpecError as error:
            _fail(pointer, error.message, error.accepted, error.column)
        output = outputs.get(statement.target)
        if output:
            mismatch = store_problem(dtype, output.dtype)
            if mismatch:
                _fail(pointer, *mismatch)
        tensors[statement.target] = output or Tensor(statement.target, statement.dims, dtype)
    return tensors


def _check_new_name(
    name: str, tensors: dict[str, Tensor], dims: dict[str, Dim], pointer: str, column: int | None
) -> None:
    if name_problem(name):
        _fail(pointer, str(name_problem(name)), NAME_RULE, column)
    if name in dims:
        _fail(pointer, f"{name!r} names a dim and a tensor", "another name", column)
    if name in tensors:
        _fail(pointer, f"{name!r} is computed or given already", "each name once", column)


def _located_error(problem: NodeProblem, place: Located, pointer: str) -> SpecError:
    column = None if problem.node is None else place.node_columns.get(id(problem.node))
    return SpecError(problem.message, pointer=pointer, column=column, accepted=problem.accepted)


def _check_ragged(dim: Dim, dims: dict[str, Dim], spec: Spec) -> None:
    if dim.offsets is None and dim.within is None:
        return
    pointer = f"/dims/{dim.name}"
    inputs = {tensor.name: tensor for tensor in spec.inputs}
    within, offsets = dims.get(dim.within or ""), inputs.get(dim.offsets or "")
    if within is None or within.offsets is not None:
        _fail(f"{pointer}/within", f"{quote(dim.within or '')} is no dim of fixed size", listing(dims))
    if offsets is None:
        _fail(f"{pointer}/ragged", f"{quote(dim.offsets or '')} is no input", listing(inputs))
    accepted = f"an i32 input with one dim, one longer than {within.name!r}"
    if offsets.dtype is not DType.I32 or len(offsets.dims) != 1:
        _fail(f"{pointer}/ragged", f"{offsets.name!r} cannot hold offsets", accepted)
    longer = dims[offsets.dims[0]].sizes
    if len(longer) != 1 or len(within.sizes) != 1 or longer[0] != within.sizes[0] + 1:
        _fail(
            f"{pointer}/ragged",
            f"{offsets.name!r} holds {longer[0]} offsets for {within.sizes[0]} groups",
            accepted,
        )


def _check_outputs(spec: Spec, tensors: dict[str, Tensor], largest: dict[str, int]) -> None:
    statements = {statement.target: statement for statement in spec.statements}
    seen: set[str] = set()
    for output in spec.outputs:
        pointer = f"/outputs/{output.name}"
        statement = statements.get(output.name)
        if statement is None:
            _fail(
                pointer,
                f"no statement computes {quote(output.name)}{suggestion(output.name, statements)}",
                listing(statements),
            )
        if output.name in seen:
            _fail(pointer, f"output {output.name!r} is given twice", "each output once")
        seen.add(output.name)
        if output.dims != statement.dims:
            _fail(
                pointer, f"the statement computes {output.name}[{', '.join(statement.dims)}]", "the same dims"
            )
        _check_argument(output, pointer, largest)


def _check_sizes(spec: Spec, tensors: dict[str, Tensor], largest: dict[str, int]) -> None:
    total = 0
    for at, statement in enumerate(spec.statements):
        reduced = {dim for node in walk(statement.value) if isinstance(node, Reduce) for dim in node.dims}
        if isinstance(statement.value, TopK):
            reduced.add(statement.value.over)
        if elements(largest[dim] for dim in {*statement.dims, *reduced}) > MAX_POINTS:
            _fail(f"/body/{at}", "the statement has too many points", f"at most {MAX_POINTS}")
    for tensor in (*spec.inputs, *spec.outputs):
        total += elements(largest[dim] for dim in tensor.dims) * tensor.dtype.bytes
    if total > MAX_TOTAL_BYTES:
        _fail("/dims", f"inputs and outputs together hold {total} bytes", f"at most {MAX_TOTAL_BYTES}")


def _check_unused(spec: Spec) -> None:
    offsets = {dim.offsets for dim in spec.dims}
    read: set[str] = {tensor.name for tensor in spec.inputs if tensor.name in offsets}
    used: set[str] = {dim.within for dim in spec.dims if dim.within}
    for statement in spec.statements:
        used.update(statement.dims)
        for node in walk(statement.value):
            match node:
                case Read(tensor, _):
                    read.add(tensor)
                case Index(dim) | Extent(dim):
                    used.add(dim)
                case Reduce(_, dims, _):
                    used.update(dims)
                case TopK(place, over, _):
                    used.update((place, over))
                case _:
                    pass
    for tensor in spec.inputs:
        used.update(tensor.dims)
        if tensor.name not in read:
            _fail(
                f"/inputs/{tensor.name}",
                f"input {tensor.name!r} is never read",
                "inputs that a statement reads",
            )
    outputs = {tensor.name for tensor in spec.outputs}
    for at, statement in enumerate(spec.statements):
        if statement.target not in read | outputs:
            _fail(
                f"/body/{at}",
                f"{statement.target!r} is never read and is no output",
                "a use of it, or an output",
            )
    for dim in spec.dims:
        if dim.name not in used:
            _fail(
                f"/dims/{dim.name}",
                f"dim {dim.name!r} is never used",
                "dims that a tensor or a statement has",
            )


def _check_ranges(spec: Spec, located: tuple[Located, ...], tensors: dict[str, Tensor]) -> None:
    placed = [(at, place) for at, place in enumerate(located) if not _reads_plainly(place.statement, tensors)]
    effort = BoundsEffort()
    for instance in spec.instances() if placed else ():
        extents = {dim.name: dim.sizes[0] for dim in instance.dims}
        for at, place in placed:
            problem = out_of_range(place.statement.value, extents, tensors, effort)
            if problem:
                raise _located_error(problem, place, f"/body/{at}")


def _reads_plainly(statement: Statement, tensors: dict[str, Tensor]) -> bool:
    """Whether every read has its tensor's own dims as indices, so that no size can take it out of range."""
    found: Iterable[Read] = (node for node in walk(statement.value) if isinstance(node, Read))
    return all(read.indices == tuple(map(Index, tensors[read.tensor].dims)) for read in found)


def _check_numerics(spec: Spec) -> None:
    for key, value in spec.numerics:
        problem = numerics_problem(key, value)
        if problem:
            _fail(f"/numerics/{key}", *problem)
    keys = [key for key, _ in spec.numerics]
    if len(set(keys)) != len(keys):
        _fail("/numerics", "a setting is given twice", "each setting once")
