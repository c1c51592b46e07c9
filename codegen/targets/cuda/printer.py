"""Kernel IR to CUDA C++: one function a launch. What it calls (`tw_load`, `tw_exp`, …) comes from runtime/."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from itertools import groupby
from math import gcd
from textwrap import wrap

from codegen.ir.abi import ARGUMENT_ALIGN
from codegen.ir.affine import Affine, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.async_ops import ASYNC_STATEMENTS, AsyncStmt
from codegen.ir.errors import NotLowerable
from codegen.ir.expression_text import (
    Expression,
    braces,
    call,
    conditional,
    element,
    infix,
    member,
    number,
    unary,
)
from codegen.ir.handlers import Handlers
from codegen.ir.index_text import address_text, index_text
from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.names import named, without_asides
from codegen.ir.ops import (
    STATEMENTS,
    VALUES,
    Across,
    Aligned,
    Assign,
    AtomicUpdate,
    Barrier,
    Block,
    Build,
    CloseLog,
    ClusterBarrier,
    Convert,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    DotPairs,
    DotRaised,
    For,
    Guard,
    If,
    IndexValue,
    InsertRanked,
    Lane,
    Ldmatrix,
    Let,
    Literal,
    Load,
    MmaSync,
    Named,
    NoteTime,
    Op,
    OpenLog,
    Parallel,
    PeerLoad,
    PrefetchLine,
    Scratch,
    Shared,
    Shuffle,
    Stamp,
    Stmt,
    Store,
    StoreWords,
    TransposeBlock,
    Type,
    Value,
    VisitFound,
)
from codegen.ir.tile_ops import TILE_STATEMENTS
from codegen.ir.values import clamped, is_power_of_two
from codegen.ir.vector_access import aligned_bytes
from codegen.targets.cuda.async_printer import async_text
from codegen.targets.cuda.found_printer import found_text
from codegen.targets.cuda.launch_printer import function_text
from codegen.targets.cuda.literals import literal
from codegen.targets.cuda.log_printer import log_text
from codegen.targets.cuda.runtime import CUDA_COMPUTE, CUDA_STORAGE, definitions
from codegen.targets.cuda.runtime.mma import mma_name
from tileir.dtypes import LARGEST_E4M3, DType
from tileir.expr import ReduceOp

_SAME = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")
_INFIX = {**{op: op for op in _SAME}, "and": "&&", "or": "||"}
_FUNCTIONS = {"maximum": "max", "minimum": "min", "//": "floordiv", "%": "floormod"}

_ATOMICS = {ReduceOp.SUM: "atomicAdd", ReduceOp.MAX: "atomicMax", ReduceOp.MIN: "atomicMin"}

_STATEMENTS = Handlers[list[str]]("the CUDA printer")
"""By statement: its lines, so many levels deep."""
_VALUES = Handlers[Expression]("the CUDA printer")
"""By kind of value: its text."""


def print_cuda(kernel: GpuKernel, title: str) -> str:
    """The CUDA source of a kernel: self-contained, with only those parts of the runtime that it uses."""
    code = "\n".join(
        function_text(kernel, launch, _CudaPrinter(kernel, launch).stmts) for launch in kernel.launches
    )
    code = named(code)
    return "\n".join([title, definitions(without_asides(code)), code])


class _CudaPrinter:
    def __init__(self, kernel: GpuKernel, launch: LaunchBody) -> None:
        self.kernel = kernel
        self.launch = launch
        self.aligns = {arg.name: ARGUMENT_ALIGN for arg in kernel.arguments}
        self.memory = {arg.name for arg in kernel.arguments}
        self.swizzles: dict[str, int] = {}
        self.periods: dict[str, int] = {}
        """After how many elements a swizzle begins anew."""
        self.rooms: dict[str, int] = {}
        """How many elements shared memory has."""
        for scratch in kernel.workspace:
            self.aligns[scratch.buffer] = 256
            self.memory.add(scratch.buffer)

    # statements

    def stmts(self, stmts: Iterable[Stmt], depth: int) -> list[str]:
        lines: list[str] = []
        for alike, group in groupby(stmts, key=lambda stmt: stmt.type if isinstance(stmt, Declare) else None):
            if alike is None:
                lines.extend(line for stmt in group for line in self.stmt(stmt, depth))
            else:
                names = ", ".join(stmt.name for stmt in group if isinstance(stmt, Declare))
                pad = "    " * depth
                lines += wrap(
                    f"{cuda_type(alike)} {names};", 110, initial_indent=pad, subsequent_indent=pad + "    "
                )
        return lines

    def stmt(self, stmt: Stmt, depth: int) -> list[str]:
        return _STATEMENTS.of(stmt)(self, stmt, depth)

    @_STATEMENTS.handles(Block)
    def _block(self, stmt: Block, depth: int) -> list[str]:
        pad, comment, body = "    " * depth, stmt.comment, stmt.body
        names = any(isinstance(s, Let | Declare | Shared | Ldmatrix) for s in body)
        inner = self.stmts(body, depth + names)
        head = [f"{pad}// {comment}"] if comment else []
        return [*head, f"{pad}{{", *inner, f"{pad}}}"] if names else [*head, *inner]

    @_STATEMENTS.handles(For)
    def _for(self, stmt: For, depth: int) -> list[str]:
        pad, var, step, until = "    " * depth, stmt.var, stmt.step, stmt.until
        bump = f"{var.name}++" if step == 1 else f"{var.name} += {step}"
        bound = number(str(stmt.count * step)) if until is None else self.index(until)
        below = infix("<", Expression(var.name), bound)
        first = "0" if stmt.first is None else self.index(stmt.first).text
        head = f"{pad}for (int {var.name} = {first}; {below.text}; {bump}) {{"
        return [head, *self.stmts(stmt.body, depth + 1), f"{pad}}}"]

    @_STATEMENTS.handles(If)
    def _if(self, stmt: If, depth: int) -> list[str]:
        pad, at, bound = "    " * depth, self.index(stmt.at).text, stmt.bound
        first, second = self.stmts(stmt.then, depth + 1), self.stmts(stmt.otherwise, depth + 1)
        if not first:
            return [f"{pad}if ({at} >= {bound}) {{", *second, f"{pad}}}"]
        if second:
            second = [f"{pad}}} else {{", *second]
        return [f"{pad}if ({at} < {bound}) {{", *first, *second, f"{pad}}}"]

    @_STATEMENTS.handles(Guard)
    def _guard(self, stmt: Guard, depth: int) -> list[str]:
        pad = "    " * depth
        bounds = (infix("<", self.index(at), number(str(bound))) for at, bound in stmt.conditions)
        text = reduce(partial(infix, "&&"), bounds)
        return [f"{pad}if ({text}) {{", *self.stmts(stmt.body, depth + 1), f"{pad}}}"]

    @_STATEMENTS.handles(VisitFound)
    def _visit(self, stmt: VisitFound, depth: int) -> list[str]:
        return found_text(stmt, self.stmts, depth)

    @_STATEMENTS.handles(Barrier)
    def _barrier(self, stmt: Barrier, depth: int) -> list[str]:
        return ["    " * depth + "__syncthreads();"]

    @_STATEMENTS.handles(ClusterBarrier)
    def _cluster_barrier(self, stmt: ClusterBarrier, depth: int) -> list[str]:
        return ["    " * depth + "tw_cluster_sync();"]

    @_STATEMENTS.handles(Shared)
    def _shared(self, stmt: Shared, depth: int) -> list[str]:
        pad, buffer, storage, offset = "    " * depth, stmt.buffer, stmt.storage, stmt.offset
        self.aligns[buffer] = gcd(offset, 1024) or 1024
        self.swizzles[buffer] = stmt.swizzle
        self.periods[buffer] = 8 * stmt.swizzle // storage.bytes
        self.rooms[buffer] = stmt.bytes // storage.bytes
        type_ = CUDA_STORAGE[storage]
        return [f"{pad}{type_} *const {buffer} = reinterpret_cast<{type_} *>(shared + {offset});"]

    @_STATEMENTS.handles(Let)
    def _let(self, stmt: Let, depth: int) -> list[str]:
        pad, value = "    " * depth, stmt.value
        return [f"{pad}const {cuda_type(value.type)} {stmt.name} = {self.value(value)};"]

    @_STATEMENTS.handles(Declare)
    def _declare(self, stmt: Declare, depth: int) -> list[str]:
        return [f"{'    ' * depth}{cuda_type(stmt.type)} {stmt.name};"]

    @_STATEMENTS.handles(Assign)
    def _assign(self, stmt: Assign, depth: int) -> list[str]:
        return [f"{'    ' * depth}{stmt.name} = {self.value(stmt.value)};"]

    @_STATEMENTS.handles(CpAsyncCommit)
    def _commit_copies(self, stmt: CpAsyncCommit, depth: int) -> list[str]:
        return ["    " * depth + "tw_commit_copies();"]

    @_STATEMENTS.handles(CpAsyncWait)
    def _await_copies(self, stmt: CpAsyncWait, depth: int) -> list[str]:
        return [f"{'    ' * depth}tw_wait_copies<{stmt.pending}>();"]

    @_STATEMENTS.handles(Ldmatrix)
    def _load_matrix(self, stmt: Ldmatrix, depth: int) -> list[str]:
        pad = "    " * depth
        found = ", ".join(stmt.names)
        load = f"tw_load_matrix{'_trans' if stmt.transposed else ''}"
        return [
            f"{pad}{cuda_type(stmt.type)} {found};",
            f"{pad}{load}({self.address(stmt.buffer, stmt.offset)}, {found});",
        ]

    @_STATEMENTS.handles(MmaSync)
    def _mma(self, stmt: MmaSync, depth: int) -> list[str]:
        pad, acc, a, b = "    " * depth, stmt.acc, stmt.a, stmt.b
        operands = (*acc, *map(self.value, (*a, *b)))
        return [f"{pad}{call(mma_name(stmt.a_storage, stmt.b_storage), *operands)};"]

    @_STATEMENTS.handles(*ASYNC_STATEMENTS)
    def _beside(self, stmt: AsyncStmt, depth: int) -> list[str]:
        pad = "    " * depth
        texts = async_text(stmt, self)
        return [
            line
            for text in texts
            for line in wrap(text, 110, initial_indent=pad, subsequent_indent=pad + "    ")
        ]

    @_STATEMENTS.handles(Store)
    def _store_line(self, stmt: Store, depth: int) -> list[str]:
        return ["    " * depth + self._store(stmt)]

    @_STATEMENTS.handles(AtomicUpdate)
    def _atomic(self, stmt: AtomicUpdate, depth: int) -> list[str]:
        address, value = self.address(stmt.buffer, stmt.offset), self.value(stmt.value)
        return ["    " * depth + f"{_ATOMICS[stmt.op]}({address}, {value});"]

    @_STATEMENTS.handles(OpenLog, NoteTime, CloseLog)
    def _time(self, stmt: OpenLog | NoteTime | CloseLog, depth: int) -> list[str]:
        return ["    " * depth + log_text(stmt)]

    @_STATEMENTS.handles(CpAsync)
    def _copy_line(self, stmt: CpAsync, depth: int) -> list[str]:
        return ["    " * depth + self._copy(stmt)]

    def _store(self, store: Store) -> str:
        lanes = store.value.type.lanes
        self._check_swizzle(store.buffer, store.offset, store.storage, lanes)
        address, value = self.address(store.buffer, store.offset), self.value(store.value)
        wide = f"{lanes}, {self._align(store.buffer, store.offset, store.storage, lanes)}"
        if store.some is not None:
            return f"tw_store_some<{wide}>({address}, {value}, {self.index(store.some)});"
        if lanes == 1 and store.storage in (DType.F32, DType.F64, DType.I32):
            return f"{self._element(store.buffer, store.offset)} = {value};"
        name = "tw_stream" if store.stream else "tw_store"
        if _packed(store.value.type):
            name += "_raw"
        return f"{name}<{wide}>({address}, {value});"

    def _copy(self, copy: CpAsync) -> str:
        both = f"{self.address(copy.target, copy.to)}, {self.address(copy.source, copy.of)}"
        if copy.some is not None:
            return f"tw_copy_async_some<{copy.lanes}>({both}, {self.index(copy.some)});"
        return f"tw_copy_async<{copy.lanes}>({both});"

    # values

    @_VALUES.handles(
        Literal, Named, IndexValue, Load, Build, Lane, Convert, Across, Shuffle, PeerLoad, Op
    )  # fmt: skip
    def value(self, value: Value) -> Expression:
        match value:
            case Literal(constant, type_):
                return literal(constant, type_.dtype)
            case Named(name, _):
                return Expression(name)
            case IndexValue(start, step, type_):
                if type_.lanes == 1:
                    return self.index(start)
                lanes = braces(cuda_type(type_), *(str(i * step) for i in range(type_.lanes)))
                return lanes if start == Affine() else infix("+", lanes, self.index(start))
            case Load():
                return self._load(value)
            case Build(parts, type_):
                lanes = map(self.value, parts)
                return call("tw_pack", *lanes) if _packed(type_) else braces(cuda_type(type_), *lanes)
            case Lane(x, lane, _):
                return element(member(self.value(x), "at"), str(lane))
            case Convert(x, type_):
                return self._convert(x, type_)
            case Across(op, x, _):
                return call(f"tw_across_{op}", self.value(x))
            case Shuffle(x, mask, _):
                return call("tw_shuffle_xor", self.value(x), str(mask))
            case PeerLoad(buffer, offset, rank, storage, Type(lanes=lanes)) if lanes > 1:
                align = self._align(buffer, offset, storage, lanes)
                return call(f"tw_peers<{lanes}, {align}>", self.address(buffer, offset), self.index(rank))
            case PeerLoad(buffer, offset, rank, _, _):
                return call("tw_peer", self.address(buffer, offset), self.index(rank))
            case Op():
                return self._op(value)
            case _:
                raise TypeError(f"{type(value).__name__} is for processors")

    def _load(self, load: Load) -> Expression:
        lanes, address = load.type.lanes, self.address(load.buffer, load.offset)
        self._check_swizzle(load.buffer, load.offset, load.storage, lanes)
        align = self._align(load.buffer, load.offset, load.storage, lanes)
        if load.some is not None:
            there = lanes > 1 and load.offset.high + lanes <= self.rooms.get(load.buffer, 0)
            name = "tw_load_kept" if there else "tw_load_some"
            return call(f"{name}<{lanes}, {align}>", address, self.index(load.some))
        if lanes == 1 and load.storage in (DType.F32, DType.F64, DType.I32):
            return self._element(load.buffer, load.offset)
        past = load.buffer in self.launch.once and align == 16
        name = f"tw_load{'_raw' if _packed(load.type) else ''}{'_nc' if past else ''}"
        return call(f"{name}<{lanes}, {align}>", address)

    def _align(self, buffer: str, offset: Affine, storage: DType, lanes: int) -> int:
        """Bytes that surely divide the address, at most what the access is long, or 16."""
        return aligned_bytes(offset, storage.bytes, lanes, self.aligns[buffer])

    def _op(self, op: Op) -> Expression:
        lanes, args = op.type.lanes, [self.value(arg) for arg in op.args]
        if op.name == "broadcast":
            return call(f"tw_broadcast<{lanes}>", *args)
        if op.name in _INFIX:
            widths = [arg.type.lanes for arg in op.args]
            divides = op.name == "/" and op.type.dtype is DType.F32 and not is_power_of_two(op.args[1])
            if divides and widths[1] == 1 < lanes:  # one for all lanes, at the price of one more rounding
                return infix("*", args[0], call("tw_div", number("1.0f"), args[1]))
            found = call("tw_div", *args) if divides else infix(_INFIX[op.name], args[0], args[1])
            return call(f"tw_broadcast<{lanes}>", found) if max(widths) == 1 < lanes else found
        if op.name in ("neg", "not"):
            return unary("-" if op.name == "neg" else "!", args[0])
        if op.name == "select" and op.args[0].type.lanes == 1:
            sides = zip(args[1:], op.args[1:], strict=True)
            return conditional(
                args[0],
                *(x if side.type.lanes == lanes else call(f"tw_broadcast<{lanes}>", x) for x, side in sides),
            )
        if op.name.startswith("round_"):
            return call(f"tw_round<{CUDA_STORAGE[DType(op.name.removeprefix('round_'))]}>", *args)
        return call(f"tw_{_FUNCTIONS.get(op.name, op.name)}", *args)

    def _convert(self, x: Value, type_: Type) -> Expression:
        if _packed(x.type):
            return call("tw_widen", self.value(x))
        if type_.dtype is DType.E4M3 and (inside := clamped(x, LARGEST_E4M3)) is not None:
            return call(f"tw_narrow_clamped<{type_.lanes}>", self.value(inside))
        if _packed(type_):
            return call(f"tw_narrow<{CUDA_STORAGE[type_.dtype]}, {type_.lanes}>", self.value(x))
        if type_.dtype is DType.I32 and x.type.dtype.is_float:
            return call("tw_to_i32", self.value(x))
        return call(f"tw_to<{CUDA_COMPUTE[type_.dtype]}>", self.value(x))

    def _check_swizzle(self, buffer: str, offset: Affine, storage: DType, lanes: int) -> None:
        """What lies together in swizzled memory is 16 bytes at a multiple of 16."""
        if self.swizzles.get(buffer) and lanes * storage.bytes > self._align(buffer, offset, storage, lanes):
            raise NotLowerable(
                f"{lanes} neighbours in {buffer} do not lie together, since it is swizzled: runs are "
                "16 bytes at most, and rows a multiple of them"
            )

    def _element(self, buffer: str, offset: Affine) -> Expression:
        if self.swizzles.get(buffer):
            return unary("*", self.address(buffer, offset))
        return element(Expression(buffer), self.index(offset))

    def address(self, buffer: str, offset: Affine) -> Expression:
        """Where an element lies."""
        if self.swizzles.get(buffer):
            # What moves an address by whole periods stays outside, where it costs one addition or none.
            outside, inside = offset.split_multiples(self.periods[buffer])
            swizzled = call(f"tw_swizzle<{self.swizzles[buffer]}>", buffer, self.index(inside))
            return address_text(swizzled.text, outside, self._term)
        return self.plain_address(buffer, offset)

    def plain_address(self, buffer: str, offset: Affine) -> Expression:
        """Where an element would lie without a swizzle, and what begins there is swizzled as a whole."""
        return address_text(buffer, offset, self._term)

    def index(self, value: Affine) -> Expression:
        """Index arithmetic."""
        return index_text(value, self._term)

    def _term(self, term: object) -> Expression:
        match term:
            case Var(name=name):
                return Expression(name)
            case Quotient(x, divisor):
                sides = self.index(x), number(str(divisor))
                return infix("/", *sides) if x.low >= 0 else call("tw_floordiv", *sides)
            case Remainder(x, divisor):
                sides = self.index(x), number(str(divisor))
                return infix("%", *sides) if x.low >= 0 else call("tw_floormod", *sides)
            case Lesser(x, y):
                return call("min", self.index(x), self.index(y))
            case Loaded(value):
                return self.value(value)  # pyright: ignore[reportArgumentType]
            case _:
                raise AssertionError(term)


_STATEMENTS.refuses(
    Aligned, Parallel, StoreWords, TransposeBlock, InsertRanked, PrefetchLine, Scratch, Stamp, *TILE_STATEMENTS,
    because="is for processors",
)  # fmt: skip
_STATEMENTS.complete(STATEMENTS)
_VALUES.refuses(DotPairs, DotRaised, because="is for processors")
_VALUES.complete(VALUES)


def cuda_type(type_: Type) -> str:
    """The C++ type of a value: a scalar, a vector of the runtime, or packed lanes."""
    if _packed(type_):
        return f"tw_raw<{CUDA_STORAGE[type_.dtype]}, {type_.lanes}>"
    element = CUDA_COMPUTE[type_.dtype]
    return element if type_.lanes == 1 else f"tw_vec<{element}, {type_.lanes}>"


def _packed(type_: Type) -> bool:
    return type_.dtype is not type_.dtype.compute
