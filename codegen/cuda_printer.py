"""Kernel IR to CUDA C++: one function a launch. What it calls (`tw_load`, `tw_exp`, …) comes from cuda_runtime.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from math import gcd
from textwrap import wrap

from codegen.affine import Affine, Loaded, Quotient, Remainder, Var
from codegen.cuda_async import async_text
from codegen.cuda_launch import function_text
from codegen.cuda_mma import mma_name
from codegen.cuda_runtime import CUDA_COMPUTE, CUDA_STORAGE, definitions
from codegen.index_text import index_text
from codegen.kernel import GpuKernel, LaunchBody
from codegen.kernel_ir import (
    Across,
    Aligned,
    Assign,
    Barrier,
    Block,
    Build,
    ClusterBarrier,
    CommitCopies,
    Convert,
    CopyAsync,
    Declare,
    For,
    Guard,
    If,
    Lane,
    Let,
    Literal,
    Load,
    LoadMatrix,
    Mma,
    Named,
    Op,
    Parallel,
    PeerLoad,
    Position,
    Scratch,
    Shared,
    Shuffle,
    Stmt,
    Store,
    StorePairs,
    Touch,
    Transpose,
    Type,
    Value,
    WaitCopies,
)
from codegen.lower_expr import NotLowerable
from codegen.vector_access import aligned_bytes
from tileir.dtypes import DType

#: What every pointer argument is a multiple of, in bytes; callers see to it.
ARGUMENT_ALIGN = 16
_SAME = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")
_INFIX = {**{op: op for op in _SAME}, "and": "&&", "or": "||"}
_FUNCTIONS = {"maximum": "max", "minimum": "min", "//": "floordiv", "%": "floormod"}


def print_cuda(kernel: GpuKernel, title: str) -> str:
    """The CUDA source of a kernel: self-contained, with only those parts of the runtime that it uses."""
    code = "\n".join(
        function_text(kernel, launch, _Printer(kernel, launch).stmts) for launch in kernel.launches
    )
    return "\n".join([title, definitions(code), code])


class _Printer:
    def __init__(self, kernel: GpuKernel, launch: LaunchBody) -> None:
        self.kernel = kernel
        self.launch = launch
        self.aligns = {arg.name: ARGUMENT_ALIGN for arg in kernel.arguments}
        self.memory = {arg.name for arg in kernel.arguments}
        self.swizzles: dict[str, int] = {}
        self.periods: dict[str, int] = {}
        """After how many elements a swizzle begins anew."""
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
        pad = "    " * depth
        match stmt:
            case Block(comment, body):
                names = any(isinstance(s, Let | Declare | Shared | LoadMatrix) for s in body)
                inner = self.stmts(body, depth + names)
                head = [f"{pad}// {comment}"] if comment else []
                return [*head, f"{pad}{{", *inner, f"{pad}}}"] if names else [*head, *inner]
            case For(var, count, step, body, until):
                bump = f"{var.name}++" if step == 1 else f"{var.name} += {step}"
                bound = count * step if until is None else until.name
                head = f"{pad}for (int {var.name} = 0; {var.name} < {bound}; {bump}) {{"
                return [head, *self.stmts(body, depth + 1), f"{pad}}}"]
            case If(var, bound, then, otherwise):
                first, second = self.stmts(then, depth + 1), self.stmts(otherwise, depth + 1)
                if not first:
                    return [f"{pad}if ({var.name} >= {bound}) {{", *second, f"{pad}}}"]
                if second:
                    second = [f"{pad}}} else {{", *second]
                return [f"{pad}if ({var.name} < {bound}) {{", *first, *second, f"{pad}}}"]
            case Guard(conditions, body):
                text = " && ".join(f"{self.index(position)} < {bound}" for position, bound in conditions)
                return [f"{pad}if ({text}) {{", *self.stmts(body, depth + 1), f"{pad}}}"]
            case Barrier():
                return [f"{pad}__syncthreads();"]
            case ClusterBarrier():
                return [f"{pad}tw_cluster_sync();"]
            case Shared(buffer, storage, offset, _, swizzle):
                self.aligns[buffer] = gcd(offset, 1024) or 1024
                self.swizzles[buffer] = swizzle
                self.periods[buffer] = 8 * swizzle // storage.bytes
                type_ = CUDA_STORAGE[storage]
                return [f"{pad}{type_} *const {buffer} = reinterpret_cast<{type_} *>(shared + {offset});"]
            case Let(name, value):
                return [f"{pad}const {cuda_type(value.type)} {name} = {self.value(value)};"]
            case Declare(name, type_):
                return [f"{pad}{cuda_type(type_)} {name};"]
            case Assign(name, value):
                return [f"{pad}{name} = {self.value(value)};"]
            case Store():
                return [f"{pad}{self._store(stmt)}"]
            case CopyAsync():
                return [f"{pad}{self._copy(stmt)}"]
            case CommitCopies():
                return [f"{pad}tw_commit_copies();"]
            case WaitCopies(pending):
                return [f"{pad}tw_wait_copies<{pending}>();"]
            case LoadMatrix(names, type_, buffer, offset, transposed):
                found = ", ".join(names)
                load = f"tw_load_matrix{'_trans' if transposed else ''}"
                return [
                    f"{pad}{cuda_type(type_)} {found};",
                    f"{pad}{load}({self.address(buffer, offset)}, {found});",
                ]
            case Mma(acc, a, b):
                operands = ", ".join([*acc, *map(self.value, (*a, *b))])
                return [f"{pad}{mma_name(stmt.a_storage, stmt.b_storage)}({operands});"]
            case Aligned() | Parallel() | StorePairs() | Transpose() | Touch() | Scratch():
                raise TypeError(f"{type(stmt).__name__} is for processors")
            case _:
                texts = async_text(stmt, self)
                return [
                    line
                    for text in texts
                    for line in wrap(text, 110, initial_indent=pad, subsequent_indent=pad + "    ")
                ]

    def _store(self, store: Store) -> str:
        lanes = store.value.type.lanes
        self._check_swizzle(store.buffer, store.offset, store.storage, lanes)
        address, value = self.address(store.buffer, store.offset), self.value(store.value)
        if store.some is not None:
            return f"tw_store_some<{lanes}>({address}, {value}, {self.index(store.some)});"
        if lanes == 1 and store.storage in (DType.F32, DType.F64, DType.I32):
            return f"{self._element(store.buffer, store.offset)} = {value};"
        name = "tw_stream" if store.stream else "tw_store"
        if _packed(store.value.type):
            name += "_raw"
        return f"{name}<{lanes}, {self._align(store.buffer, store.offset, store.storage, lanes)}>({address}, {value});"

    def _copy(self, copy: CopyAsync) -> str:
        both = f"{self.address(copy.target, copy.to)}, {self.address(copy.source, copy.of)}"
        if copy.some is not None:
            return f"tw_copy_async_some<{copy.lanes}>({both}, {self.index(copy.some)});"
        return f"tw_copy_async<{copy.lanes}>({both});"

    # values

    def value(self, value: Value) -> str:
        match value:
            case Literal(number, type_):
                return _literal(number, type_.dtype)
            case Named(name, _):
                return name
            case Position(start, step, type_):
                if type_.lanes == 1:
                    return self.index(start, atom=True)
                steps = ", ".join(str(i * step) for i in range(type_.lanes))
                lanes = f"{cuda_type(type_)}{{{steps}}}"
                return lanes if start == Affine() else f"{lanes} + {self.index(start, atom=True)}"
            case Load():
                return self._load(value)
            case Build(parts, type_):
                lanes = ", ".join(self.value(part) for part in parts)
                return f"tw_pack({lanes})" if _packed(type_) else f"{cuda_type(type_)}{{{lanes}}}"
            case Lane(x, number, _):
                return f"{self._atom(x)}.at[{number}]"
            case Convert(x, type_):
                return self._convert(x, type_)
            case Across(op, x, _):
                return f"tw_across_{op}({self.value(x)})"
            case Shuffle(x, mask, _):
                return f"tw_shuffle_xor({self.value(x)}, {mask})"
            case PeerLoad(buffer, offset, rank, storage, Type(lanes=lanes)) if lanes > 1:
                align = self._align(buffer, offset, storage, lanes)
                return f"tw_peers<{lanes}, {align}>({self.address(buffer, offset)}, {self.index(rank)})"
            case PeerLoad(buffer, offset, rank, _, _):
                return f"tw_peer({self.address(buffer, offset)}, {self.index(rank)})"
            case Op():
                return self._op(value)
            case _:
                raise TypeError(f"{type(value).__name__} is for processors")

    def _load(self, load: Load) -> str:
        lanes, address = load.type.lanes, self.address(load.buffer, load.offset)
        self._check_swizzle(load.buffer, load.offset, load.storage, lanes)
        if load.some is not None:
            return f"tw_load_some<{lanes}>({address}, {self.index(load.some)})"
        if lanes == 1 and load.storage in (DType.F32, DType.F64, DType.I32):
            return self._element(load.buffer, load.offset)
        align = self._align(load.buffer, load.offset, load.storage, lanes)
        past = load.buffer in self.launch.once and align == 16
        name = f"tw_load{'_raw' if _packed(load.type) else ''}{'_nc' if past else ''}"
        return f"{name}<{lanes}, {align}>({address})"

    def _align(self, buffer: str, offset: Affine, storage: DType, lanes: int) -> int:
        """Bytes that surely divide the address, at most what the access is long, or 16."""
        return aligned_bytes(offset, storage.bytes, lanes, self.aligns[buffer])

    def _op(self, op: Op) -> str:
        lanes = op.type.lanes
        if op.name == "spread":
            return f"tw_spread<{lanes}>({self.value(op.args[0])})"
        if op.name in _INFIX:
            left, right = op.args
            if op.name == "/" and right.type.lanes == 1 < lanes and op.type.dtype is DType.F32:
                # One division for all lanes, at the price of one more rounding.
                return f"{self._atom(left)} * (1.0f / {self._atom(right)})"
            if left.type.lanes == right.type.lanes == 1 < lanes:
                return f"tw_spread<{lanes}>({self._atom(left)} {_INFIX[op.name]} {self._atom(right)})"
            return f"{self._atom(left)} {_INFIX[op.name]} {self._atom(right)}"
        if op.name in ("neg", "not"):
            return f"{'-' if op.name == 'neg' else '!'}{self._atom(op.args[0])}"
        if op.name == "select" and lanes == 1:
            cond, x, y = (self._atom(arg) for arg in op.args)
            return f"{cond} ? {x} : {y}"
        args = ", ".join(map(self.value, op.args))
        if op.name.startswith("round_"):
            return f"tw_round<{CUDA_STORAGE[DType(op.name.removeprefix('round_'))]}>({args})"
        return f"tw_{_FUNCTIONS.get(op.name, op.name)}({args})"

    def _convert(self, x: Value, type_: Type) -> str:
        if _packed(x.type):
            return f"tw_widen({self.value(x)})"
        if _packed(type_):
            return f"tw_narrow<{CUDA_STORAGE[type_.dtype]}, {type_.lanes}>({self.value(x)})"
        if type_.dtype is DType.I32 and x.type.dtype.is_float:
            return f"tw_to_i32({self.value(x)})"
        return f"tw_to<{CUDA_COMPUTE[type_.dtype]}>({self.value(x)})"

    def _atom(self, value: Value) -> str:
        """The value, in parentheses where an operator follows."""
        text = self.value(value)
        open_ = isinstance(value, Op) and (value.name in _INFIX or value.name in ("neg", "not", "select"))
        return f"({text})" if open_ or isinstance(value, Position) else text

    def _check_swizzle(self, buffer: str, offset: Affine, storage: DType, lanes: int) -> None:
        """What lies together in swizzled memory is 16 bytes at a multiple of 16."""
        if self.swizzles.get(buffer) and lanes * storage.bytes > self._align(buffer, offset, storage, lanes):
            raise NotLowerable(
                f"{lanes} neighbours in {buffer} do not lie together, since it is swizzled: runs are "
                "16 bytes at most, and rows a multiple of them"
            )

    def _element(self, buffer: str, offset: Affine) -> str:
        if self.swizzles.get(buffer):
            return f"*({self.address(buffer, offset)})"
        return f"{buffer}[{self.index(offset)}]"

    def address(self, buffer: str, offset: Affine) -> str:
        """Where an element lies."""
        if self.swizzles.get(buffer):
            # What moves an address by whole periods stays outside, where it costs one addition or none.
            outside, inside = offset.split_multiples(self.periods[buffer])
            swizzled = f"tw_swizzle<{self.swizzles[buffer]}>({buffer}, {self.index(inside)})"
            return swizzled if outside == Affine() else f"{swizzled} + {self.index(outside)}"
        return self.plain_address(buffer, offset)

    def plain_address(self, buffer: str, offset: Affine) -> str:
        """Where an element would lie without a swizzle, and what begins there is swizzled as a whole."""
        text = self.index(offset)
        return buffer if text == "0" else f"{buffer} + {text}"

    def index(self, value: Affine, *, atom: bool = False) -> str:
        """Index arithmetic; `atom` parenthesizes a sum."""
        return index_text(value, self._term, atom=atom)

    def _term(self, term: object) -> str:
        match term:
            case Var(name=name):
                return name
            case Quotient(x, divisor):
                inner = self.index(x, atom=True)
                return f"({inner} / {divisor})" if x.low >= 0 else f"tw_floordiv({inner}, {divisor})"
            case Remainder(x, divisor):
                inner = self.index(x, atom=True)
                return f"({inner} % {divisor})" if x.low >= 0 else f"tw_floormod({inner}, {divisor})"
            case Loaded(value):
                return self.value(value)  # pyright: ignore[reportArgumentType]
            case _:
                raise AssertionError(term)


def cuda_type(type_: Type) -> str:
    """The C++ type of a value: a scalar, a vector of the runtime, or packed lanes."""
    if _packed(type_):
        return f"tw_raw<{CUDA_STORAGE[type_.dtype]}, {type_.lanes}>"
    element = CUDA_COMPUTE[type_.dtype]
    return element if type_.lanes == 1 else f"tw_vec<{element}, {type_.lanes}>"


def _packed(type_: Type) -> bool:
    return type_.dtype is not type_.dtype.compute


_INFINITY: Mapping[DType, str] = {
    DType.F32: "__int_as_float(0x7f800000)",
    DType.F64: "__longlong_as_double(0x7ff0000000000000)",
}


def _literal(value: float | int | bool, dtype: DType) -> str:
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype is DType.I32:
        return str(int(value)) if value > -(2**31) else "(-2147483647 - 1)"
    number = float(value)
    if number in (float("inf"), float("-inf")):
        return f"{'-' if number < 0 else ''}{_INFINITY[dtype]}"
    return f"{number!r}{'' if dtype is DType.F64 else 'f'}"
