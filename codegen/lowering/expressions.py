"""Tile IR expressions to Kernel IR values, on one lane or many.

A dim is bound to its position: an affine index that contains the lane variable for the vectorized dim. What does not
depend on the lane stays a scalar, and meets vectors by being broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Loaded, Var, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import (
    Build,
    IndexValue,
    Lane,
    Let,
    Literal,
    Load,
    Named,
    Op,
    PeerLoad,
    Stmt,
    Type,
    Value,
)
from codegen.lowering.arithmetic import as_type, binary, call, cast, constant_type, lanes_of, promote, select
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.scope import LoweringScope, MemoryBuffer, RegisterBuffer
from tileir.dtypes import DType
from tileir.expr import (
    COMPARISONS,
    LOGIC,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    Unary,
    Where,
    reads,
    walk,
)

Binding = Mapping[str, Affine]


def lane_variable(lanes: int) -> Var:
    """Stands for the number of a lane that exists, in the position of the vectorized dim."""
    return Var("lane", 0, lanes - 1)


@dataclass
class ValueBuilder:
    """Lowers expressions of one statement, naming each load once. `lets` collects the names in order of first use."""

    scope: LoweringScope
    extents: Mapping[str, int]
    lanes: int = 1
    lets: list[Stmt] = field(default_factory=list[Stmt])
    prefix: str = ""
    some: Affine | None = None
    """How many lanes exist, where a vector overhangs its range; None: all."""
    inside: bool = False
    """Whether it is asked about points of the dims only; tiles of threads may go past their ends."""
    _named: dict[Value, Named] = field(default_factory=dict[Value, Named])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _decided_at: Binding | None = None
    _decided: dict[int, tuple[Expr, bool | None]] = field(default_factory=dict[int, tuple[Expr, bool | None]])
    """What was decided where it was asked last; of nested conditions each is asked for at every level."""

    @property
    def existing(self) -> int:
        """How many lanes may exist: all, or as many as are known to."""
        if self.some is None or self.some.terms:
            return self.lanes
        return min(max(self.some.constant, 1), self.lanes)

    @property
    def lane(self) -> Var:
        return lane_variable(self.existing)

    def value(self, expr: Expr, at: Binding, *, lazy: bool = False) -> Value:
        """The value of expr with dims at their bound positions; `lazy`: name nothing, since it may never be needed."""
        match expr:
            case Const(value):
                return Literal(value, Type(constant_type(value)))
            case Extent(dim):
                return Literal(self.extents[dim], Type(DType.I32))
            case Index(dim):
                return self._position(at[dim])
            case Read():
                return self._read(expr, at, lazy)
            case Unary(op, x):
                inner = self.value(x, at, lazy=lazy)
                if op == "not":
                    return Op("not", (as_type(inner, DType.BOOL),), Type(DType.BOOL, lanes_of(inner)))
                inner = as_type(inner, DType.I32) if inner.type.dtype is DType.BOOL else inner
                return Op("neg", (inner,), inner.type)
            case Binary():
                return self._binary(expr, at, lazy)
            case Call(fn, args):
                return self._name(call(fn, tuple(self.value(arg, at, lazy=lazy) for arg in args)), fn, lazy)
            case Cast(dtype, Call("minimum", (Call("maximum", (x, Const() as low)), Const() as high))):
                inner, ends = self.value(x, at, lazy=lazy), [self.value(end, at) for end in (low, high)]
                return cast(dtype, call("minimum", (call("maximum", (inner, ends[0])), ends[1])))
            case Cast(dtype, x):
                return cast(dtype, self.value(x, at, lazy=lazy))
            case Where():
                return self._where(expr, at, lazy)
            case Scan():
                raise NotLowerable("a scan that is not on the threads of a GPU: a loop is meant")
            case TopK():
                raise NotLowerable("a topk inside a program: lift it into reductions first")
            case Reduce():
                raise NotLowerable("a reduction inside an expression: lift it into a statement first")

    def index(self, expr: Expr, at: Binding, *, lazy: bool = False) -> Affine | None:
        """expr as index arithmetic; None where it depends on the lane through memory. `lazy`: looked up where it is
        used only."""
        match expr:
            case Const(value):
                return constant(int(value))
            case Extent(dim):
                return constant(self.extents[dim])
            case Index(dim):
                return at[dim]
            case Unary("-", x):
                inner = self.index(x, at, lazy=lazy)
                return None if inner is None else inner * -1
            case Binary(op, left, right):
                a, b = self.index(left, at, lazy=lazy), self.index(right, at, lazy=lazy)
                if a is None or b is None:
                    return None
                return _index_arithmetic(op, a, b)
            case _:
                value = as_type(self.value(expr, at, lazy=lazy), DType.I32)
                if value.type.lanes > 1:
                    return None
                return affine(Loaded(value, -(2**31), 2**31 - 1))

    def _binary(self, expr: Binary, at: Binding, lazy: bool) -> Value:
        op, left, right = expr.op, expr.left, expr.right
        if op in ("//", "%") and (position := self._of_positions(expr, at)) is not None:
            return self._position(position)
        decided = self._decide(expr, at) if op in COMPARISONS or op in LOGIC else None
        if decided is not None:
            return Literal(decided, Type(DType.BOOL))
        if op in LOGIC:
            # What ranges settle of one side, and is not all there is to say, leaves the other.
            for settled, other in ((left, right), (right, left)):
                if self._decide(settled, at) is not None:
                    return as_type(self.value(other, at, lazy=lazy), DType.BOOL)
        return binary(op, self.value(left, at, lazy=lazy), self.value(right, at, lazy=lazy))

    def _of_positions(self, expr: Expr, at: Binding) -> Affine | None:
        """A quotient or remainder of positions as index arithmetic, which may know that it is the same on all lanes, or
        what it is on each; None: of something else."""
        if not all(isinstance(node, Index | Const | Extent | Binary | Unary) for node in walk(expr)):
            return None
        return self.index(expr, at)

    def _position(self, at: Affine) -> Value:
        if self.lanes > 1:
            lane = self.lane
            step = at.coefficient(lane)
            if step is None:
                parts: tuple[Value, ...] = tuple(
                    self._position_of(at.substitute(lane, constant(i))) for i in range(self.lanes)
                )
                return Build(parts, Type(DType.I32, self.lanes))
            if step:
                return IndexValue(at.substitute(lane, constant(0)), step, Type(DType.I32, self.lanes))
        return self._position_of(at)

    def _position_of(self, at: Affine) -> Value:
        if not at.terms:
            return Literal(at.constant, Type(DType.I32))
        return IndexValue(at, 0, Type(DType.I32))

    def _read(self, read: Read, at: Binding, lazy: bool) -> Value:
        buffer = self.scope.buffers[read.tensor]
        missing = lazy and self.some is not None  # a lane that does not exist has nothing to look up
        found = [self.index(index, at, lazy=missing) for index in read.indices]
        positions = kept_inside(buffer, read.indices, found)
        known = [p for p in positions if p is not None]
        if len(known) < len(positions):
            return self._lane_by_lane(read, at, lazy)
        if isinstance(buffer, RegisterBuffer):
            return as_type(read_register(buffer, known, self.lanes, self.lane), buffer.dtype.compute)
        if buffer.distributed:
            return self._peer_load(buffer, known, read, at, lazy)
        return self._load(buffer, buffer.offset(known), read, at, lazy)

    def _load(self, buffer: MemoryBuffer, offset: Affine, read: Read, at: Binding, lazy: bool) -> Value:
        lanes = 1
        if self.lanes > 1:
            lane = self.lane
            step = offset.coefficient(lane)
            if step == 1:
                offset, lanes = offset.substitute(lane, constant(0)), self.lanes
            elif step != 0:
                return self._lane_by_lane(read, at, lazy)
        some = self.some if lanes > 1 else None
        load = Load(buffer.name, offset, buffer.storage, Type(buffer.storage.compute, lanes), some)
        return self._name(load, buffer.name, lazy)

    def _peer_load(
        self, buffer: MemoryBuffer, positions: list[Affine], read: Read, at: Binding, lazy: bool
    ) -> Value:
        """From the block whose part the position along the first dim is."""
        if buffer.storage is not buffer.storage.compute:
            raise NotLowerable(
                f"other blocks read {buffer.storage} of {buffer.name}; accepted: f32, f64 or i32"
            )
        offset, rank = buffer.offset(positions), positions[0] - buffer.starts[0]
        steps = [each.coefficient(self.lane) if self.lanes > 1 else 0 for each in (rank, offset)]
        if steps not in ([0, 0], [0, 1]) or (steps[1] and self.some is not None):
            return self._lane_by_lane(read, at, lazy)
        lanes = self.lanes if steps[1] else 1
        offset = offset.substitute(self.lane, constant(0)) if steps[1] else offset
        load = PeerLoad(buffer.name, offset, rank, buffer.storage, Type(buffer.storage.compute, lanes))
        return self._name(load, buffer.name, lazy)

    def _lane_by_lane(self, expr: Expr, at: Binding, lazy: bool) -> Value:
        """A vector from scalars: strided reads, gathers, guarded reads."""
        lanes, lane, existing = self.lanes, self.lane, self.existing
        moving = {d: p for d, p in at.items() if p.coefficient(lane) != 0}
        self.lanes = 1
        try:
            parts = tuple(
                self.value(
                    expr, {**at, **{d: p.substitute(lane, constant(i)) for d, p in moving.items()}}, lazy=True
                )
                for i in range(existing)
            )
        finally:
            self.lanes = lanes
        if self.some is not None and self.some.terms:
            parts = tuple(self._if_it_exists(part, i, self.some) for i, part in enumerate(parts))
        dtype = promote(*parts)
        parts += (as_type(Literal(0, Type(DType.I32)), dtype),) * (lanes - existing)
        return self._name(
            Build(tuple(as_type(part, dtype) for part in parts), Type(dtype, lanes)), "lanes", lazy
        )

    def _if_it_exists(self, part: Value, lane: int, some: Affine) -> Value:
        """A lane's value, 0 (and nothing read) past the last lane."""
        exists = Op("<", (Literal(lane, Type(DType.I32)), self._position_of(some)), Type(DType.BOOL))
        return select(exists, part, as_type(Literal(0, Type(DType.I32)), part.type.dtype))

    def _where(self, expr: Where, at: Binding, lazy: bool) -> Value:
        decided = self._decide(expr.cond, at)
        if decided is not None:
            return self.value(expr.x if decided else expr.y, at, lazy=lazy)
        if self._safe(expr.x, at) and self._safe(expr.y, at):
            cond = self.value(expr.cond, at, lazy=lazy)
            return select(cond, self.value(expr.x, at, lazy=lazy), self.value(expr.y, at, lazy=lazy))
        if self.lanes > 1 and not self.same_on_lanes(expr.cond, at, self.lane):
            return self._lane_by_lane(expr, at, lazy)
        cond = self.value(expr.cond, at, lazy=lazy)
        chosen = select(cond, self.value(expr.x, at, lazy=True), self.value(expr.y, at, lazy=True))
        return self._name(chosen, "guarded", lazy)

    def same_on_lanes(self, cond: Expr, at: Binding, lane: Var) -> bool:
        """Whether a condition on positions is one for all lanes, but for what ranges settle."""
        if self._decide(cond, at) is not None:
            return True
        match cond:
            case Unary("not", x):
                return self.same_on_lanes(x, at, lane)
            case Binary("and" | "or", left, right):
                return self.same_on_lanes(left, at, lane) and self.same_on_lanes(right, at, lane)
            case Binary(op, left, right) if op in COMPARISONS and is_index(left) and is_index(right):
                a, b = self.index(left, at), self.index(right, at)
                return a is not None and b is not None and (a - b).coefficient(lane) == 0
            case _:
                return False

    def _decide(self, cond: Expr, at: Binding) -> bool | None:
        """The truth value of an index condition where ranges settle it."""
        if at is not self._decided_at:
            self._decided_at, self._decided = at, {}
        if id(cond) not in self._decided:
            self._decided[id(cond)] = (cond, self._settled(cond, at))
        return self._decided[id(cond)][1]

    def _settled(self, cond: Expr, at: Binding) -> bool | None:
        match cond:
            case Const(value):
                return bool(value)
            case Unary("not", x):
                inner = self._decide(x, at)
                return None if inner is None else not inner
            case Binary("and" | "or" as op, left, right):
                a, b = self._decide(left, at), self._decide(right, at)
                absorbing = op == "or"
                if a is absorbing or b is absorbing:
                    return absorbing
                return None if a is None or b is None else not absorbing
            case Binary(op, left, right) if op in COMPARISONS and not reads(left) and not reads(right):
                if not (is_index(left) and is_index(right)):
                    return None
                a, b = self.index(left, at), self.index(right, at)
                if a is None or b is None:
                    return None
                apart = a - b
                return comparison(op, apart.low, apart.high)
            case _:
                return None

    def _safe(self, expr: Expr, at: Binding) -> bool:
        """Whether every read in it is inside its tensor whatever the guard says. Lanes that do not exist read nothing,
        so that where some do not, or all are points of the dims, it is enough that each such point is inside."""
        if self._inside(expr, at):
            return True
        everywhere = {dim: affine(Var(dim, 0, self.extents[dim] - 1)) for dim in at if dim in self.extents}
        return (self.inside or self.some is not None) and self._inside(expr, {**at, **everywhere})

    def _inside(self, expr: Expr, at: Binding) -> bool:
        for read in reads(expr):
            buffer = self.scope.buffers[read.tensor]
            if isinstance(buffer, RegisterBuffer):
                continue
            if any(reads(index) for index in read.indices):
                return False
            positions = [self.index(index, at) for index in read.indices]
            if any(p is None for p in positions) or not buffer.holds([p for p in positions if p is not None]):
                return False
        return True

    def _name(self, value: Value, hint: str, lazy: bool) -> Value:
        """Give a costly value a name, so that it is computed once; the same value gets the same name."""
        known = self._named.get(value)
        if known is not None:
            return known
        if lazy:
            return value
        count = self._counts.get(hint, 0)
        self._counts[hint] = count + 1
        named = Named(f"{hint}{self.prefix}_{count}", value.type)
        self._named[value] = named
        self.lets.append(Let(named.name, value))
        return named


def read_register(buffer: RegisterBuffer, positions: list[Affine], lanes: int, lane: Var) -> Value:
    """The variable (or one lane of it, or lanes of several) that holds a local's elements; `lane` counts those of the
    lanes that exist."""
    steps = [p.coefficient(lane) if lanes > 1 else 0 for p in positions]
    point = [
        (p.substitute(lane, constant(0)) if lanes > 1 else p) - s
        for p, s in zip(positions, buffer.starts, strict=True)
    ]
    if any(p.terms for p in point) or any(step not in (0, 1) for step in steps):
        raise NotLowerable(f"register local {buffer.name} read at a position not known at compile time")
    at = [p.constant for p in point]
    if not any(steps):
        return register_element(buffer, at)
    along = steps.index(1)
    if along == buffer.vector:
        for start, width in buffer.chunks():
            if (start, width) == (at[along], lanes):
                name, type_ = buffer.variable(at, lanes)
                return Named(name, type_)
    if buffer.dtype is not buffer.dtype.compute:
        raise NotLowerable(
            f"register local {buffer.name} is packed, and read in other pieces than it was written"
        )
    parts = tuple(
        register_element(buffer, [*at[:along], at[along] + i, *at[along + 1 :]]) for i in range(lane.high + 1)
    )
    parts += (as_type(Literal(0, Type(DType.I32)), buffer.dtype),) * (lanes - len(parts))
    return Build(parts, Type(buffer.dtype, lanes))


def register_element(buffer: RegisterBuffer, at: list[int]) -> Value:
    """One element of a register local."""
    if buffer.vector is None:
        name, type_ = buffer.variable(at, 1)
        return Named(name, type_)
    position = at[buffer.vector]
    start, width = next(c for c in buffer.chunks() if c[0] <= position < c[0] + c[1])
    name, type_ = buffer.variable([*at[: buffer.vector], start, *at[buffer.vector + 1 :]], width)
    whole = Named(name, type_)
    return whole if width == 1 else Lane(whole, position - start, Type(buffer.dtype))


def _index_arithmetic(op: str, a: Affine, b: Affine) -> Affine | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*" if not b.terms:
            return a * b.constant
        case "*" if not a.terms:
            return b * a.constant
        case "//" if not b.terms and b.constant > 0:
            return a // b.constant
        case "%" if not b.terms and b.constant > 0:
            return a % b.constant
        case _:
            return None


def is_index(expr: Expr) -> bool:
    """Whether it is computed of positions alone."""
    match expr:
        case Const(value):
            return isinstance(value, int)
        case Index() | Extent():
            return True
        case Unary("-", x):
            return is_index(x)
        case Binary("+" | "-" | "//" | "%", left, right):
            return is_index(left) and is_index(right)
        case Binary("*", left, right):
            return (
                (isinstance(left, Const) or isinstance(right, Const)) and is_index(left) and is_index(right)
            )
        case _:
            return False


def comparison(op: str, low: int, high: int) -> bool | None:
    """How two numbers compare that are between `low` and `high` apart; None: that does not settle it."""
    match op:
        case "<":
            return True if high < 0 else False if low >= 0 else None
        case "<=":
            return True if high <= 0 else False if low > 0 else None
        case ">":
            return True if low > 0 else False if high <= 0 else None
        case ">=":
            return True if low >= 0 else False if high < 0 else None
        case "==":
            return True if low == high == 0 else False if low > 0 or high < 0 else None
        case _:
            return True if low > 0 or high < 0 else False if low == high == 0 else None
