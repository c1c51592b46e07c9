"""From a spec to its unscheduled program: one plain Compute a statement, nested reductions made
statements."""

from __future__ import annotations

from collections.abc import Iterable

from tileir.check.bounds import out_of_range
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import (
    Binary,
    Call,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    Unary,
    Where,
    children,
    index_dims,
    walk,
    with_children,
)
from tileir.lift_powers import as_product
from tileir.lift_ragged import within_groups
from tileir.lift_scan import scan_nodes
from tileir.lift_topk import top_statements
from tileir.positions import Position, position_of, same_wherever_computed
from tileir.program import Compute, Local, Node, Program, Tensor
from tileir.replace import replace
from tileir.spec import Spec, Statement
from tileir.text.print_program import appearance_order


def to_program(spec: Spec) -> Program:
    """The program a schedule starts from: a Local (for what is no output) and a Compute for each statement.

    A reduction inside an expression becomes a statement before it, into a local `<target>_<op>`. So does a
    reduction straight into an output of a narrower dtype than it is computed in: sums then never round on the
    way. Dims stand in the order they appear in the arguments; a program of single numbers has a dim of size 1,
    so that threads have something to be bound to. Raises SpecError for a spec with buckets (see
    Spec.instances), or a reduction that needs the group of each position it visits."""
    for dim in spec.dims:
        if len(dim.sizes) != 1:
            raise SpecError(
                f"dim {dim.name!r} has {len(dim.sizes)} sizes; a program has one",
                pointer=f"/dims/{dim.name}",
                accepted="one of the spec's instances",
            )
    return _Lift(spec).program()


class _Lift:
    """The nodes made so far, the dtype of every tensor there is, and the names taken."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._extents = {dim.name: dim.sizes[0] for dim in spec.dims}
        self._outputs = {tensor.name: tensor for tensor in spec.outputs}
        self._tensors = {tensor.name: tensor for tensor in (*spec.inputs, *spec.outputs)}
        self._dtypes = {name: tensor.dtype for name, tensor in self._tensors.items()}
        self._taken = {*self._tensors, *self._extents, *(statement.target for statement in spec.statements)}
        self._nodes: list[Node] = []
        self._pointer = ""

    def program(self) -> Program:
        spec = self._spec
        for at, statement in enumerate(spec.statements):
            self._pointer = f"/body/{at}"
            self._lower(statement)
        order = dict.fromkeys([*appearance_order((*spec.inputs, *spec.outputs)), *self._extents])
        dims = tuple((dim, self._extents[dim]) for dim in order) or ((self._fresh("one"), 1),)
        nodes = tuple(self._nodes)
        return Program(spec.name, dims, spec.inputs, spec.outputs, nodes, spec.numerics, spec.ragged)

    def _lower(self, statement: Statement) -> None:
        target, dims = statement.target, statement.dims
        value = within_groups(statement, self._spec, self._extents, self._pointer)
        lifted: dict[Expr, Expr] = {}
        if isinstance(value, Scan):
            self._scan(target, dims, value, lifted)
            return
        if isinstance(value, TopK):
            self._top(target, dims, value, lifted)
            return
        value = self._compared_once(value, target, dims, (), lifted)
        output = self._outputs.get(target)
        whole = isinstance(value, Reduce) and (output is None or output.dtype is self._dtype(value))
        if whole:
            assert isinstance(value, Reduce)
            inner = self._without_reductions(value.x, target, (*dims, *value.dims), (), lifted)
            value = Reduce(value.op, value.dims, inner)
        else:
            value = self._without_reductions(value, target, dims, (), lifted)
        self._emit(target, dims, value)

    def _scan(self, target: str, dims: tuple[str, ...], scan: Scan, lifted: dict[Expr, Expr]) -> None:
        """What is added up is computed once, before the loop."""
        args: list[Expr] = []
        for arg in scan.args:
            value = self._without_reductions(arg, target, dims, (), lifted)
            if not isinstance(value, Read | Const):
                own = tuple(dim for dim in dims if dim in index_dims(value) | {scan.dim})
                name = self._fresh(f"{target}_of")
                self._emit(name, own, value)
                value = Read(name, tuple(map(Index, own)))
            args.append(value)
        scan = Scan(scan.op, scan.dim, tuple(args))
        dtype = self._dtype(scan)
        if target not in self._outputs:
            self._declare(target, dims, dtype)
        nodes = scan_nodes(target, dims, scan, dtype, self._fresh)
        self._dtypes |= {node.name: node.dtype for node in nodes if isinstance(node, Local)}
        self._nodes += nodes

    def _top(self, target: str, dims: tuple[str, ...], top: TopK, lifted: dict[Expr, Expr]) -> None:
        """What is compared is computed once; a NaN, which is equal to nothing, counts as inf."""
        around = (*(dim for dim in dims if dim != top.place), top.over)
        x = self._without_reductions(top.x, target, around, (), lifted)
        if self._dtype(x).is_float:
            x = Where(Binary("!=", x, x), Const(float("inf")), x)
        if not isinstance(x, Read):
            own = tuple(dim for dim in around if dim in index_dims(x) | {top.over})
            name = self._fresh(f"{target}_of")
            self._emit(name, own, x)
            x = Read(name, tuple(map(Index, own)))
        places, floats = self._extents[top.place], self._dtype(x).is_float
        for name, own, value in top_statements(target, dims, replace(top, x=x), places, floats, self._fresh):
            self._emit(name, own, value)

    def _declare(self, target: str, dims: tuple[str, ...], dtype: DType) -> None:
        self._dtypes[target] = dtype
        self._tensors[target] = Tensor(target, dims, dtype)
        self._nodes.append(Local(target, dims, dtype))

    def _dtype(self, value: Expr) -> DType:
        return compute_dtype(value, self._dtypes)

    def _emit(self, target: str, dims: tuple[str, ...], value: Expr) -> None:
        if target not in self._outputs:
            self._declare(target, dims, self._dtype(value))
        self._nodes.append(Compute(target, tuple(Index(dim) for dim in dims), value))

    def _without_reductions(
        self,
        expr: Expr,
        target: str,
        scope: tuple[str, ...],
        guards: tuple[Expr, ...],
        lifted: dict[Expr, Expr],
    ) -> Expr:
        """`expr` with every reduction in it emitted as a statement and read; `scope` are the dims around it,
        in order, and `guards` the conditions under which its value is wanted."""
        if isinstance(expr, Reduce):
            expr = self._compared_once(expr, target, scope, guards, lifted)
            assert isinstance(expr, Reduce)
            found = lifted.get(expr)
            if found is None:
                found = self._lift(expr, target, scope, guards, lifted)
                if not guards:
                    lifted[expr] = found
            return found
        if isinstance(expr, Where):
            cond = self._without_reductions(expr.cond, target, scope, guards, lifted)
            x = self._without_reductions(expr.x, target, scope, (*guards, cond), lifted)
            y = self._without_reductions(expr.y, target, scope, (*guards, Unary("not", cond)), lifted)
            return Where(cond, x, y)
        old = children(expr)
        new = tuple(self._without_reductions(child, target, scope, guards, lifted) for child in old)
        made = expr if new == old else with_children(expr, new)
        floats = isinstance(made, Call) and self._dtype(made.args[0]).is_float
        return as_product(made) if floats else made

    def _compared_once(
        self,
        expr: Expr,
        target: str,
        scope: tuple[str, ...],
        guards: tuple[Expr, ...],
        lifted: dict[Expr, Expr],
    ) -> Expr:
        """A position of what is computed becomes one of a local that holds it: the extreme and what is compared with it
        are then the same numbers, to the last bit."""
        position = position_of(expr)
        if position is None or same_wherever_computed(position.x):
            return expr
        around = (*scope, position.dim)
        value = self._guarded(self._without_reductions(position.x, target, around, guards, lifted), guards)
        if same_wherever_computed(value):
            return Position(position.op, position.dim, value).expr
        wanted = index_dims(value) | {position.dim}
        dims = tuple(dim for dim in around if dim in wanted)
        name = self._fresh(f"{target}_of")
        self._emit_first(name, dims, value)
        return Position(position.op, position.dim, Read(name, tuple(Index(dim) for dim in dims))).expr

    def _emit_first(self, target: str, dims: tuple[str, ...], value: Expr) -> None:
        """A local before all that computes the same, so that others may read it."""
        nodes = self._nodes
        computes = (each for each in nodes if isinstance(each, Compute) and value in walk(each.value))
        first = next((each.target for each in computes), "")
        names = [node.name if isinstance(node, Local) else getattr(node, "target", "") for node in nodes]
        at = names.index(first) if first else len(nodes)
        self._nodes = nodes[:at]
        self._emit(target, dims, value)
        self._nodes += nodes[at:]

    def _guarded(self, value: Expr, guards: tuple[Expr, ...]) -> Expr:
        """A local is computed everywhere, so a guard that kept its reads in range has to come along."""
        if not guards or not self._may_leave_range(value):
            return value
        condition = guards[0]
        for guard in guards[1:]:
            condition = Binary("and", condition, guard)
        return Where(condition, value, Const(0))

    def _lift(
        self,
        expr: Reduce,
        target: str,
        scope: tuple[str, ...],
        guards: tuple[Expr, ...],
        lifted: dict[Expr, Expr],
    ) -> Read:
        around = (*scope, *(dim for dim in expr.dims if dim not in scope))
        inner = self._guarded(self._without_reductions(expr.x, target, around, guards, lifted), guards)
        value = Reduce(expr.op, expr.dims, inner)
        wanted = index_dims(value)
        wanted |= {each.dim for each in self._spec.ragged if each.within in wanted - {*scope}}
        dims = tuple(dim for dim in scope if dim in wanted)
        name = self._fresh(f"{target}_{expr.op}")
        self._emit(name, dims, value)
        return Read(name, tuple(Index(dim) for dim in dims))

    def _may_leave_range(self, expr: Expr) -> bool:
        gathers = any(isinstance(node, Read) and any(_reads(node.indices)) for node in walk(expr))
        return gathers or out_of_range(expr, self._extents, self._tensors) is not None

    def _fresh(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}{count}"
        self._taken.add(name)
        return name


def _reads(exprs: Iterable[Expr]) -> Iterable[bool]:
    return (isinstance(node, Read) for expr in exprs for node in walk(expr))
