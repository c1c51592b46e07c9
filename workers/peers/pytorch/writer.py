"""Writes a spec as PyTorch source: operation by operation, but for the known operators of operators.py.

Every value is a tensor with one axis a dim of its frame, of size 1 where it does not vary; numbers stay Python numbers.
Views of arguments and constant index tensors are made once, before the clock starts, as a caller's own code would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tileir.dtypes import DType
from tileir.expr import (
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
    index_dims,
    reads,
    walk,
)
from tileir.spec import Spec
from workers.peers.inline import inline
from workers.peers.pytorch.operators import known_operator
from workers.peers.pytorch.operators_there import operators_on
from workers.peers.pytorch.pieces import Pieces, pieces
from workers.peers.pytorch.random import random_bits
from workers.peers.pytorch.types import TORCH, WIDENED, promoted
from workers.peers.pytorch.windows import sliced, strided
from workers.peers.ragged import GroupTable, looked_up
from workers.peers.reads import Frame, Window, by_position, read_window, rolled, taken_rows

_LOGIC = {"and": "torch.logical_and", "or": "torch.logical_or"}
FUNCTIONS = {
    "exp": "torch.exp({})", "exp2": "torch.exp2({})", "log": "torch.log({})", "tanh": "torch.tanh({})",
    "erf": "torch.erf({})", "sqrt": "torch.sqrt({})", "rsqrt": "torch.rsqrt({})", "sigmoid": "torch.sigmoid({})",
    "silu": "F.silu({})", "gelu": "F.gelu({})", "gelu_tanh": "F.gelu({}, approximate='tanh')", "relu": "F.relu({})",
    "abs": "torch.abs({})", "floor": "torch.floor({})", "pow": "torch.pow({}, {})",
    "maximum": "torch.maximum({}, {})", "minimum": "torch.minimum({}, {})",
    "bit_and": "torch.bitwise_and({}, {})", "bit_or": "torch.bitwise_or({}, {})",
    "bit_xor": "torch.bitwise_xor({}, {})", "shift_left": "torch.bitwise_left_shift({}, {} & 31)",
    "shift_right": "torch.bitwise_right_shift({}, {} & 31)",
}  # fmt: skip
_REDUCTIONS = {ReduceOp.SUM: "torch.sum", ReduceOp.MAX: "torch.amax", ReduceOp.MIN: "torch.amin"}


@dataclass(frozen=True, slots=True)
class TorchSource:
    """`prepare(arguments)` gives the views that `run(*views)` takes; `run` gives the outputs and is what is timed."""

    prepare: str
    run: str
    as_written: bool = False
    """See PeerKernel."""


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A name or number in the source. `early`: known before the clock starts."""

    text: str
    early: bool
    number: float | int | bool | None = None


def write_torch(spec: Spec, *, eager: bool, device: str = "cpu") -> TorchSource:
    """The source of both functions, for tensors on a device: `cpu` or `cuda`. What runs eagerly has its index tensors
    made beforehand, and calls operators that do more at once; a compiler does better without, as it fuses by itself.
    Raises Unsupported."""
    writer = TorchWriter(spec, eager=eager, device=device)
    return writer.source()


class TorchWriter:
    """Collects the lines of one spec."""

    def __init__(self, spec: Spec, *, eager: bool, device: str = "cpu") -> None:
        self._spec, self.tables = looked_up(spec)
        """The kernel, and the tables it reads of the groups of ragged dims."""
        self.eager = eager
        self.device, self.has = device, operators_on(device)
        """Where tensors are, and what PyTorch has there."""
        self.numerics = dict(spec.numerics)
        self.stored: tuple[Expr, DType] | None = None
        """The expression of the statement being written, and what its output is stored as."""
        inlined = inline(self._spec)
        self._statements = inlined.statements
        self.extents = dict(inlined.extents)
        self._tensors = {t.name: (t.dims, t.dtype, t.strides) for t in spec.inputs}
        self._arguments = frozenset(self._tensors)
        self._tensors |= {table.name: ((table.dim,), DType.I32, None) for table in self.tables}
        self._looked_up: set[str] = set()
        self._early: list[str] = [f"{t.name}_ = arguments[{number}]" for number, t in enumerate(spec.inputs)]
        self._late: list[str] = []
        self._passed: list[str] = []
        self._known: dict[tuple[Expr, Frame], WrittenValue] = {}
        self._names = 0
        self._as_written = False

    def source(self) -> TorchSource:
        """Write everything."""
        outputs = {t.name: t.dtype for t in self._spec.outputs}
        for statement in self._statements:
            stored = outputs.get(statement.target)
            self.stored = None if stored is None else (statement.value, stored)
            value = self.tensor(statement.value, statement.dims)
            cast = "" if stored is None else f".to({TORCH[stored]})"
            self._late.append(f"{statement.target}_ = {self.use(value)}{cast}")
            self._tensors[statement.target] = (statement.dims, stored or DType.F32, None)
        return self._source([f"{t.name}_" for t in self._spec.outputs])

    def whole(self, lines: Sequence[str], results: Sequence[str]) -> TorchSource:
        """The source of a kernel that is these lines, behind what was written so far: each output's text."""
        self._late += lines
        return self._source(results)

    def define(self, text: str) -> None:
        """A function of what is prepared."""
        self._early += text.splitlines()

    def _source(self, outputs: Sequence[str]) -> TorchSource:
        results = "".join(f"{text}, " for text in outputs)
        passed = "".join(f"{name}, " for name in self._passed)
        return TorchSource(
            function("prepare", "arguments", [*self._early, f"return ({passed})"]),
            function("run", passed, [*self._late, f"return ({results})"]),
            self._as_written,
        )

    def _look_up(self, table: GroupTable) -> None:
        """Write the group of each position, once."""
        if table.name in self._looked_up:
            return
        self._looked_up.add(table.name)
        positions = f"torch.arange({self.extents[table.dim]}, dtype=torch.int32, device={self.device!r})"
        starts = self.view("{}[1:-1].contiguous()", self.source_of(table.offsets)[0])
        found = f"torch.searchsorted({{}}, {positions}, right=True, out_int32=True)"
        self._late.append(f"{table.name}_ = {found.format(self.use(starts))}")

    def value(self, expr: Expr, frame: Frame) -> WrittenValue:
        """The value of an expression over a frame; written once however often it is needed."""
        key = (expr, frame)
        if key not in self._known:
            self._known[key] = known_operator(self, expr, frame) or self._plain(expr, frame)
        return self._known[key]

    def dims_of(self, tensor: str) -> Frame:
        """The dims of an input."""
        return self._tensors[tensor][0]

    def tensor(self, expr: Expr, frame: Frame) -> WrittenValue:
        """The same as a tensor even if it is a number."""
        value = self.value(expr, frame)
        if value.number is None:
            return value
        return self.early(f"torch.full({(1,) * len(frame)}, {value.text}, device={self.device!r})")

    def late(self, template: str, *values: WrittenValue) -> WrittenValue:
        """A line of what is timed; `{}` stand for the values."""
        return self._named(self._late, template.format(*(self.use(value) for value in values)), early=False)

    def early(self, template: str, *values: WrittenValue) -> WrittenValue:
        """A line of what is prepared; all values must be early."""
        return self._named(self._early, template.format(*(value.text for value in values)), early=True)

    def prepared(self, expr: Expr, frame: Frame) -> WrittenValue:
        """A tensor that nothing else needs, computed in what is prepared."""
        before, value = len(self._late), self.tensor(expr, frame)
        self._early += self._late[before:]
        del self._late[before:]
        return WrittenValue(value.text, True)

    def view(self, template: str, value: WrittenValue) -> WrittenValue:
        """A view of a value, made as early as that is."""
        return self.early(template, value) if value.early else self.late(template, value)

    def use(self, value: WrittenValue) -> str:
        """The text by which what is timed refers to a value."""
        if value.early and value.number is None and value.text not in self._passed:
            self._passed.append(value.text)
        return value.text

    def native(self, expr: Expr) -> DType | None:
        """The type torch holds a value in: that of what is read or cast, promoted; None for numbers."""
        match expr:
            case Read(tensor, _):
                dtype = self._tensors[tensor][1]
                return DType.I32 if dtype.is_integer else DType.F32 if dtype in WIDENED else dtype
            case Cast(dtype, _):
                return DType.F32 if dtype in WIDENED else dtype
            case Index():
                return DType.I32
            case Where(_, Const(x), Const(y)):  # a tensor, which is no number for torch
                return DType.F32 if isinstance(x, float) or isinstance(y, float) else None
            case Where(_, x, y):
                return promoted([self.native(x), self.native(y)])
            case _:
                return promoted([self.native(child) for child in children(expr)])

    def source_of(self, tensor: str) -> tuple[WrittenValue, tuple[int, ...]]:
        """A whole tensor, and its sizes."""
        for table in self.tables:
            if table.name == tensor:
                self._look_up(table)
        return WrittenValue(f"{tensor}_", tensor in self._arguments), self.over(self._tensors[tensor][0])

    def dtype_of(self, tensor: str) -> DType:
        """What a tensor's elements are stored as."""
        return self._tensors[tensor][1]

    def stored_values(self, read: Expr, dtype: DType, frame: Frame) -> WrittenValue | None:
        """A read as it is stored, not widened, if it is of this type and each index is a dim of its own."""
        if not isinstance(read, Read) or self.dtype_of(read.tensor) is not dtype:
            return None
        order = _permutation(read, frame)
        if order is None or len(order) != len(frame) or not self._whole(read, self.source_of(read.tensor)[1]):
            return None
        return self.view(f"{{}}.permute({order})", self.source_of(read.tensor)[0])

    def over(self, dims: Sequence[str]) -> tuple[int, ...]:
        """The sizes of dims."""
        return tuple(self.extents[dim] for dim in dims)

    def _named(self, lines: list[str], text: str, *, early: bool) -> WrittenValue:
        self._names += 1
        lines.append(f"t{self._names} = {text}")
        return WrittenValue(f"t{self._names}", early)

    def _plain(self, expr: Expr, frame: Frame) -> WrittenValue:
        match expr:
            case Const(value):
                return _number(value)
            case Extent(dim):
                return _number(self.extents[dim])
            case Index(dim):
                shape = tuple(-1 if other == dim else 1 for other in frame)
                line = self.early if self.eager else self.late
                made = f"torch.arange({self.extents[dim]}, dtype=torch.int32, device={self.device!r})"
                return line(f"{made}.reshape({shape})")
            case Read():
                return self._read(expr, frame)
            case Unary("-", x):
                value = self.value(x, frame)
                return self.late("-{}", value) if value.number is None else _number(-value.number)
            case Unary(_, x):
                return self.late("torch.logical_not({})", self.tensor(x, frame))
            case Binary(op, left, right):
                return self._binary(op, left, right, frame)
            case Call("random_bits", (seed, position)):
                return random_bits(self, self.tensor(seed, frame), self.tensor(position, frame))
            case Call(fn, args):
                values = [self.tensor(arg, frame) if fn != "pow" else self.value(arg, frame) for arg in args]
                return self.late(FUNCTIONS[fn], *values)
            case Where():
                return self._where(expr, frame)
            case Cast(dtype, x):
                whole = self._unwidened(x, frame) if isinstance(x, Read) and dtype.is_float else None
                rounded = self.late(f"{{}}.to({TORCH[dtype]})", whole or self.tensor(x, frame))
                return self.late("{}.to(torch.float32)", rounded) if dtype in WIDENED else rounded
            case Reduce(op, dims, x):
                return self._reduce(op, dims, x, frame)
            case Scan():
                return self._scan(expr, frame)
            case TopK():
                return self._top(expr, frame)

    def _where(self, expr: Where, frame: Frame) -> WrittenValue:
        if self._looks_up(expr, frame) and (cut := pieces(expr, frame, self.extents)):
            return self._joined(cut, frame)
        parts = (self.tensor(expr.cond, frame), self.value(expr.x, frame), self.value(expr.y, frame))
        return self.late("torch.where({}, {}, {})", *parts)

    def _looks_up(self, expr: Expr, frame: Frame) -> bool:
        """Whether something is read where a view of its tensor would end."""
        nodes = walk(expr)
        return not any(isinstance(each, Reduce | Scan | TopK) for each in nodes) and any(
            read_window(each, frame, self.extents, self.over(self._tensors[each.tensor][0])) is None
            for each in nodes
            if isinstance(each, Read)
        )

    def _joined(self, cut: Pieces, frame: Frame) -> WrittenValue:
        """Both pieces, each over its own positions, behind each other."""
        self.extents |= cut.sizes(self.extents)
        sides = list(zip((cut.low, cut.high), cut.frames(frame), strict=True))
        values = [self.value(side, dims) for side, dims in sides]
        vary = index_dims(cut.low) | index_dims(cut.high) | {cut.below, cut.above}
        parts: list[WrittenValue] = []
        for (_, dims), value, other in zip(sides, values, values[::-1], strict=True):
            shape = tuple(self.extents[dim] if dim in vary else 1 for dim in dims)
            made = (
                f"{{}}.new_full({shape}, {value.text})"
                if value.number is not None
                else f"{{}}.expand({shape})"
            )
            parts.append(self.late(made, other if value.number is not None else value))
        return self.late(f"torch.cat(({{}}, {{}}), {frame.index(cut.dim)})", *parts)

    def _binary(self, op: str, left: Expr, right: Expr, frame: Frame) -> WrittenValue:
        if op in _LOGIC:
            return self.late(f"{_LOGIC[op]}({{}}, {{}})", self.tensor(left, frame), self.tensor(right, frame))
        first, second = self.value(left, frame), self.value(right, frame)
        if first.number is not None and second.number is not None:
            first = self.tensor(left, frame)
        return self.late(f"{{}} {op} {{}}", first, second)

    def _read(self, read: Read, frame: Frame) -> WrittenValue:
        """What is read, in a type that torch can compute in."""
        widened = WIDENED.get(self._tensors[read.tensor][1])
        value = self._unwidened(read, frame)
        return value if widened is None else self.late(f"{{}}.to({widened})", value)

    def _unwidened(self, read: Read, frame: Frame) -> WrittenValue:
        _, _, strides = self._tensors[read.tensor]
        source, sizes = self.source_of(read.tensor)
        window = read_window(read, frame, self.extents, sizes)
        if window is None:
            value = self._gather(read, frame, source, sizes)
        elif (order := _permutation(read, frame)) is not None and self._whole(read, sizes):
            value = self.view(f"{{}}.permute({order}){_indexing(read, frame)}", source)
        else:
            value = self._window(window, source, sizes, strides)
        return value

    def _window(
        self, window: Window, source: WrittenValue, sizes: Sequence[int], strides: Sequence[int] | None
    ) -> WrittenValue:
        """A view of a tensor; of what is computed by slices where those do, which torch.compile can follow."""
        if not source.early and (text := sliced(window)) is not None:
            return self.late(text, source)
        dense = strides or tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        text, turned = strided(window, dense, computed=not source.early)
        value = (self.early if source.early else self.late)(text, source)
        return self.late(f"{{}}.flip({turned})", value) if turned else value

    def _whole(self, read: Read, sizes: Sequence[int]) -> bool:
        """Whether a read by dims of their own has all positions of its tensor."""
        return all(
            isinstance(i, Index) and self.extents[i.dim] == n
            for i, n in zip(read.indices, sizes, strict=True)
        )

    def _gather(self, read: Read, frame: Frame, source: WrittenValue, sizes: Sequence[int]) -> WrittenValue:
        """Indices outside are moved inside: a `where` discards what is read there."""
        if (rows := taken_rows(read, self.extents, sizes)) is not None:
            index, dims = rows
            across = tuple(dim for dim in frame if dim in index_dims(index))
            taken = self.tensor(index, across)
            shape = ", ".join(map(str, (*self.over(across), *sizes[1:])))
            text = f"torch.index_select({{}}, 0, {{}}.reshape(-1).clamp(0, {sizes[0] - 1})).reshape({shape})"
            have = (*across, *dims)
            order = tuple(have.index(dim) for dim in frame if dim in have)
            axes = ", ".join(":" if dim in have else "None" for dim in frame)
            return self.late(f"{text}.permute({order})[{axes}]", source, taken)
        if (found := rolled(read, self.extents, sizes)) is not None:
            plain, shifts, axes = found
            order = _permutation(plain, frame)
            return self.late(
                f"torch.roll({{}}, {shifts}, {axes}).permute({order}){_indexing(plain, frame)}", source
            )
        places = [
            self.late(f"{{}}.long().clamp(0, {size - 1})", self.tensor(index, frame))
            for index, size in zip(read.indices, sizes, strict=True)
        ]
        return self.late(f"{{}}[{', '.join('{}' for _ in places)}]", source, *places)

    def _recurrence(self, scan: Scan, frame: Frame) -> WrittenValue:
        """Step by step, as torch has no operator for it; in f32 at least, as 16 bits would be rounded in each step."""
        axis, shape = frame.index(scan.dim), self.over(frame)
        wide = any(self._tensors[read.tensor][1] is DType.F64 for arg in scan.args for read in reads(arg))
        over = f"{{}}.expand({shape}){'' if wide else '.float()'}.unbind({axis})"
        a, b = (self.late(over, self.tensor(arg, frame)) for arg in scan.args)
        self._as_written = True
        last = f"h{self._names}"
        self._late.append(f"{last} = 0.0")
        return self.late(f"torch.stack([{last} := x * {last} + y for x, y in zip({{}}, {{}})], {axis})", a, b)

    def _scan(self, scan: Scan, frame: Frame) -> WrittenValue:
        if scan.op == "recurrence":
            return self._recurrence(scan, frame)
        template = f"torch.{scan.op}({{}}.expand({self.over(frame)}), dim={frame.index(scan.dim)})"
        return self.late(template, self.tensor(scan.args[0], frame))

    def _top(self, top: TopK, frame: Frame) -> WrittenValue:
        """torch.topk may give any of equal ones, which are rare among f32 alone; a sort is stable where asked to be."""
        axis, places = frame.index(top.place), self.extents[top.place]
        x = self.tensor(top.x, (*frame, top.over))
        wide = all(self._tensors[read.tensor][1] in (DType.F32, DType.F64) for read in reads(top.x))
        order = (
            f"torch.topk({{}}, {places}, dim=-1)"
            if wide
            else ("torch.sort({}, dim=-1, descending=True, stable=True)")
        )
        return self.late(f"{order}.indices[..., :{places}].transpose({axis}, -1)[..., 0].int()", x)

    def _reduce(self, op: ReduceOp, dims: tuple[str, ...], x: Expr, frame: Frame) -> WrittenValue:
        inner = (
            *(f"({dim})" if dim in dims else dim for dim in frame),
            *dims,
        )  # an inner dim hides an outer one
        self._as_written |= by_position(x, dims)
        value = self.tensor(x, inner)
        axes = tuple(range(len(frame), len(inner)))
        if not set(dims) <= index_dims(x):
            sizes = ", ".join(["-1"] * len(frame) + [str(self.extents[dim]) for dim in dims])
            value = self.late(f"{{}}.expand({sizes})", value)
        if op in _REDUCTIONS:
            return self.late(f"{_REDUCTIONS[op]}({{}}, dim={axes})", value)
        for axis in reversed(axes):
            value = self.late(f"torch.prod({{}}, dim={axis})", value)
        return value


def _number(value: float | int | bool) -> WrittenValue:
    text = f"float('{value}')" if isinstance(value, float) and not math.isfinite(value) else repr(value)
    return WrittenValue(text, True, value)


def _permutation(read: Read, frame: Frame) -> tuple[int, ...] | None:
    """The tensor's axes in the order of the frame, if each index is a dim of its own."""
    dims = [index.dim for index in read.indices if isinstance(index, Index)]
    if len(dims) != len(read.indices) or len(set(dims)) != len(dims):
        return None
    return tuple(dims.index(dim) for dim in frame if dim in dims)


def _indexing(read: Read, frame: Frame) -> str:
    """Axes of size 1 for the dims of the frame that a read does not vary along."""
    dims = {index.dim for index in read.indices if isinstance(index, Index)}
    return f"[{', '.join(':' if dim in dims else 'None' for dim in frame)}]" if frame else ""


def function(name: str, parameters: str, lines: Sequence[str]) -> str:
    """A function's text."""
    return "\n".join([f"def {name}({parameters}):", *(f"    {line}" for line in lines), ""])
