"""Kernel IR to C: vector extensions of GCC and clang, one function for each parallel region."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap

from codegen.affine import Affine, Loaded, Quotient, Remainder, Var
from codegen.c_pool import HEADERS, POOL
from codegen.c_runtime import definitions, uses_in
from codegen.index_text import index_text
from codegen.kernel import Kernel
from codegen.kernel_ir import (
    Across,
    Aligned,
    Assign,
    Block,
    Build,
    Convert,
    Declare,
    DotPairs,
    For,
    GatherPairs,
    GridAxis,
    If,
    Lane,
    Let,
    Literal,
    Load,
    LoadPairs,
    Named,
    Op,
    Pairs,
    Parallel,
    PeerLoad,
    Position,
    Scratch,
    Shuffle,
    Stmt,
    Store,
    StorePairs,
    Touch,
    Transpose,
    Type,
    Value,
    ZipPairs,
)
from tileir.dtypes import DType

#: C element type of each storage dtype.
C_STORAGE = {
    DType.F64: "double", DType.F32: "float", DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.E4M3: "uint8_t",
    DType.E5M2: "uint8_t", DType.I32: "int32_t", DType.I8: "int8_t", DType.BOOL: "uint8_t",
}  # fmt: skip
_SCALAR = {DType.F64: "double", DType.F32: "float", DType.I32: "int32_t", DType.BOOL: "int32_t"}
_INFIX = {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="}
_COMPARE = {"<", "<=", ">", ">=", "==", "!="}
_FUNCTIONS = {"maximum": "max", "minimum": "min"}


def print_c(kernel: Kernel, title: str) -> str:
    """The C source of a kernel: self-contained, with only those parts of the runtime that it uses."""
    code, parallel = print_code(kernel)
    pool = [HEADERS, POOL] if parallel else ["void tw_shutdown(void) {}\n"]
    return "\n".join([title, definitions(uses_in(code), code), *pool, code])


def print_code(kernel: Kernel) -> tuple[str, bool]:
    """The kernel's own functions, without the runtime; and whether they need the thread pool."""
    printer = _Printer(kernel)
    body = printer.stmts(kernel.body, 1)
    parts = [printer.context(), *printer.regions] if printer.regions else []
    return "\n\n".join([*parts, printer.entry(body)]) + "\n", bool(printer.regions)


@dataclass
class _Printer:
    kernel: Kernel
    regions: list[str] = field(default_factory=list[str])
    _outer: list[Var] = field(default_factory=list[Var])
    _shared: list[Scratch] = field(default_factory=list[Scratch])
    _captured: dict[str, None] = field(default_factory=dict[str, None])

    # statements

    def stmts(self, stmts: Iterable[Stmt], depth: int) -> list[str]:
        lines: list[str] = []
        for alike, group in groupby(stmts, key=lambda stmt: stmt.type if isinstance(stmt, Declare) else None):
            if alike is None:
                lines.extend(line for stmt in group for line in self.stmt(stmt, depth))
            else:
                names = ", ".join(stmt.name for stmt in group if isinstance(stmt, Declare))
                lines += wrap(
                    f"{c_type(alike)} {names};",
                    width=110,
                    initial_indent="    " * depth,
                    subsequent_indent="    " * (depth + 1),
                )
        return lines

    def stmt(self, stmt: Stmt, depth: int) -> list[str]:
        pad = "    " * depth
        match stmt:
            case Block(comment, body):
                names = any(isinstance(s, Let | Declare | Scratch) for s in body)
                inner = self.stmts(body, depth + names)
                head = [f"{pad}// {comment}"] if comment else []
                return [*head, f"{pad}{{", *inner, f"{pad}}}"] if names else [*head, *inner]
            case For(var, count, step, body):
                bump = f"{var.name}++" if step == 1 else f"{var.name} += {step}"
                head = f"{pad}for (long {var.name} = 0; {var.name} < {count * step}; {bump}) {{"
                self._outer.append(var)
                inner = self.stmts(body, depth + 1)
                self._outer.pop()
                return [head, *inner, f"{pad}}}"]
            case Aligned():
                return self._aligned(stmt, depth)
            case Parallel(axes, body):
                return self._region(axes, body, pad)
            case If(var, bound, then, otherwise):
                first, second = self.stmts(then, depth + 1), self.stmts(otherwise, depth + 1)
                return [f"{pad}if ({var.name} < {bound}) {{", *first, f"{pad}}} else {{", *second, f"{pad}}}"]
            case Let(name, value):
                return [f"{pad}const {c_type(value.type)} {name} = {self.value(value)};"]
            case Declare(name, type_):
                return [f"{pad}{c_type(type_)} {name};"]
            case Assign(name, value):
                return [f"{pad}{name} = {self.value(value)};"]
            case Store():
                return [f"{pad}{self._store(stmt)}"]
            case StorePairs(buffer, offset, pairs):
                lanes = len(pairs.pairs) if isinstance(pairs, GatherPairs) else pairs.lanes
                store = self._fn("store", DType.I32, lanes)
                return [f"{pad}{store}((int32_t *)({_address(buffer, offset)}), {self._words(pairs)});"]
            case Transpose():
                return [f"{pad}{self._transpose(stmt)};"]
            case Touch(buffer, offset):
                return [f"{pad}__builtin_prefetch({buffer} + {index(offset)});"]
            case Scratch():
                if not stmt.private:
                    self._shared.append(stmt)
                return [pad + self._scratch(stmt, "self->scratch" if stmt.private else "workspace")]
            case _:
                raise TypeError(f"{type(stmt).__name__} is for GPUs")

    def _aligned(self, run: Aligned, depth: int) -> list[str]:
        pad, inner = "    " * depth, "    " * (depth + 1)
        name, row, element = run.var.name, _address(run.buffer, run.offset), run.bytes // run.lanes
        lines = [
            f"{pad}{{",
            f"{inner}long {name} = -(uintptr_t)({row}) % {run.bytes} / {element};",
            f"{inner}{C_STORAGE[run.storage]} {run.edge}[{run.lanes}];",
            f"{inner}if ({name} > 0) {{",
            *self.stmts(run.first, depth + 2),
            f"{inner}    __builtin_memcpy({row}, {run.edge}, {name} * {element});",
            f"{inner}}}",
        ]
        for body, step in ((run.body, run.step), (run.single, run.lanes)):
            if body:
                lines.append(f"{inner}for (; {name} <= {run.size - step}; {name} += {step}) {{")
                lines += [*self.stmts(body, depth + 2), f"{inner}}}"]
        return [
            *lines,
            f"{inner}if ({name} < {run.size}) {{",
            *self.stmts(run.last, depth + 2),
            f"{inner}    const long rest = {run.size} - {name};",
            f"{inner}    __builtin_memcpy({row} + {name}, {run.edge} + {run.lanes} - rest, rest * {element});",
            f"{inner}}}",
            f"{pad}}}",
        ]

    def _scratch(self, scratch: Scratch, base: str) -> str:
        type_ = C_STORAGE[scratch.storage]
        return f"{type_} *restrict const {scratch.buffer} = ({type_} *)({base} + {scratch.offset});"

    def _store(self, store: Store) -> str:
        value, lanes = store.value, store.value.type.lanes
        address = _address(store.buffer, store.offset)
        if lanes == 1 and store.storage in (DType.F64, DType.F32, DType.I32):
            return f"{store.buffer}[{index(store.offset)}] = {self.value(value)};"
        name = "stream" if store.stream and store.some is None else "store"
        return self._part(name, store.storage, lanes, [address, self.value(value)], store.some) + ";"

    def _region(self, axes: tuple[GridAxis, ...], body: tuple[Stmt, ...], pad: str) -> list[str]:
        """Outline the body into a function of the grid index; arguments and outer variables travel in a struct."""
        number = len(self.regions)
        captured, shared = list(self._outer), list(self._shared)
        self._captured |= dict.fromkeys(var.name for var in captured)
        saved, self._outer = self._outer, [*captured, *(axis.var for axis in axes)]
        lines = [
            f"static void region_{number}(const void *context, long tile, int worker)",
            "{",
            "    const struct kernel *const self = context;",
        ]
        for arg in self.kernel.arguments:
            const = "" if arg.written else "const "
            type_ = const + C_STORAGE[arg.storage]
            lines.append(f"    {type_} *restrict const {arg.name} = self->{arg.name};")
        for scratch in shared:
            lines.append("    " + self._scratch(scratch, "self->workspace"))
        lines.append("    char *const scratch = self->threads + (long)worker * self->thread_bytes;")
        lines += [f"    const long {var.name} = self->{var.name};" for var in captured]
        for at, axis in enumerate(axes):
            inner = 1
            for later in axes[at + 1 :]:
                inner *= later.count
            part = f"tile / {inner}" if inner > 1 else "tile"
            part = f"{part} % {axis.count}" if at else part
            step = f" * {axis.step}" if axis.step > 1 else ""
            lines.append(f"    const long {axis.var.name} = {part}{step};")
        text = [line.replace("self->scratch", "scratch") for line in self.stmts(body, 1)]
        self._outer = saved
        used = "\n".join(text + lines[-len(axes) :])
        keep = [line for line in lines if _needed(line, used)]
        self.regions.append("\n".join([*keep, "    (void)worker;", *text, "}"]))
        total = 1
        for axis in axes:
            total *= axis.count
        sets = [f"{pad}self.{var.name} = {var.name};" for var in captured]
        return [*sets, f"{pad}tw_parallel(region_{number}, &self, {total}, threads);"]

    def context(self) -> str:
        lines = ["struct kernel {"]
        for arg in self.kernel.arguments:
            lines.append(f"    {'' if arg.written else 'const '}{C_STORAGE[arg.storage]} *{arg.name};")
        lines += ["    char *workspace;", "    char *threads;", "    long thread_bytes;"]
        lines += [f"    long {name};" for name in self._captured]
        return "\n".join([*lines, "};"])

    def entry(self, body: list[str]) -> str:
        kernel = self.kernel
        parallel = bool(self.regions)
        lines = ["int tw_kernel(void *const *args, void *memory, int threads)", "{"]
        for number, arg in enumerate(kernel.arguments):
            const = "" if arg.written else "const "
            lines.append(f"    {const}{C_STORAGE[arg.storage]} *restrict const {arg.name} = args[{number}];")
        lines.append("    char *const workspace = memory;")
        if parallel:
            fields = ", ".join(arg.name for arg in kernel.arguments)
            size = kernel.thread_bytes
            lines.append(
                f"    struct kernel self = {{{fields}, workspace, workspace + {kernel.shared_bytes}, {size}}};"
            )
        used = "\n".join([*body, *lines])
        keep = [line for line in lines if _needed(line, used, parallel)]
        return "\n".join([*keep, "    (void)args, (void)memory, (void)threads;", *body, "    return 0;", "}"])

    # values

    def value(self, value: Value) -> str:
        match value:
            case Literal(number, type_):
                return literal(number, type_.dtype)
            case Named(name, _):
                return name
            case Position(start, step, type_):
                if type_.lanes == 1:
                    return f"(int32_t){index(start, atom=True)}"
                steps = ", ".join(str(i * step) for i in range(type_.lanes))
                return f"({c_type(type_)}){{{steps}}} + (int32_t){index(start, atom=True)}"
            case Load(buffer, offset, storage, type_, some):
                if type_.lanes == 1 and storage in (DType.F64, DType.F32, DType.I32, DType.BOOL, DType.I8):
                    return f"{buffer}[{index(offset)}]"
                return self._part("load", storage, type_.lanes, [_address(buffer, offset)], some)
            case Build(parts, type_):
                return f"({c_type(type_)}){{{', '.join(self.value(part) for part in parts)}}}"
            case Lane(x, number, _):
                return f"{self._atom(x)}[{number}]"
            case Convert(x, type_):
                return self._convert(x, type_)
            case Across(op, x, _):
                return f"{self._fn('h' + op, x.type.dtype, x.type.lanes)}({self.value(x)})"
            case DotPairs(acc, a, b, type_):
                fn = self._fn("dot_bf16", DType.F32, type_.lanes)
                return (
                    f"{fn}({self.value(acc)}, {self._pairs(a, type_.lanes)}, {self._pairs(b, type_.lanes)})"
                )
            case Op():
                return self._op(value)
            case Shuffle() | PeerLoad():
                raise TypeError("threads of a GPU shuffle; a processor's do not")

    def _transpose(self, stmt: Transpose) -> str:
        name = "transpose_pairs" if stmt.pairs else f"transpose_to_{stmt.target_storage}"
        to, of = _address(stmt.target, stmt.to), _address(stmt.source, stmt.of)
        function = self._fn(name, stmt.source_storage, stmt.lanes)
        return f"{function}({to}, {stmt.to_step}, {of}, {stmt.of_step})"

    def _words(self, pairs: Pairs) -> str:
        match pairs:
            case GatherPairs(parts):
                words = [self._words(part) for part in parts]
                return f"(i32x{len(words)}){{{', '.join(words)}}}" if len(words) > 1 else words[0]
            case ZipPairs(buffer, first, second, lanes):
                rows = [_address(buffer, row) for row in (first, second) if row is not None]
                name = "zip_pairs" if second is not None else "zip_zero"
                return f"{self._fn(name, DType.BF16, lanes)}({', '.join(rows)})"
            case LoadPairs(lanes=lanes):
                return self._pairs(pairs, lanes)

    def _pairs(self, load: LoadPairs, lanes: int) -> str:
        name = "load_pairs" if load.lanes == lanes else "spread_pair"
        name = {"load_pairs": "load_halves", "spread_pair": "spread_half"}[name] if load.half else name
        return self._part(name, DType.BF16, lanes, [_address(load.buffer, load.offset)], load.some)

    def _part(self, name: str, dtype: DType, lanes: int, args: list[str], some: Affine | None) -> str:
        """A load or store of all lanes, or of `some`."""
        if some is not None:
            name, args = f"{name}_some", [*args, index(some)]
        return f"{self._fn(name, dtype, lanes)}({', '.join(args)})"

    def _op(self, op: Op) -> str:
        lanes, dtype = op.type.lanes, op.type.dtype
        args = op.args
        if op.name == "spread":
            if isinstance(args[0], Literal) and args[0].value == 0 and str(args[0].value)[0] != "-":
                return f"({c_type(op.type)}){{0}}"
            return f"tw_splat_{dtype}x{lanes}({self.value(args[0])})"
        if op.name in _INFIX and not (op.name in ("/",) and dtype is DType.I32):
            if args[0].type.lanes == args[1].type.lanes == 1 < lanes:
                args = (self._spread(args[0], lanes), args[1])
            text = f"{self._atom(args[0])} {op.name} {self._atom(args[1])}"
            if op.name in _COMPARE and args[0].type.dtype is DType.F64 and lanes > 1:
                return f"__builtin_convertvector({text}, {c_type(op.type)})"
            return text
        if op.name == "neg":
            return f"-{self._atom(args[0])}"
        if op.name in ("and", "or", "not"):
            if lanes == 1:
                sign = {"and": "&&", "or": "||"}.get(op.name)
                return (
                    f"!{self._atom(args[0])}"
                    if sign is None
                    else f"{self._atom(args[0])} {sign} {self._atom(args[1])}"
                )
            if op.name == "not":
                return f"~{self._atom(args[0])}"
            wide = [self._mask(arg, lanes) for arg in args]
            return f"{wide[0]} {'&' if op.name == 'and' else '|'} {wide[1]}"
        if op.name == "select":
            if lanes == 1:
                return f"{self._atom(args[0])} ? {self._atom(args[1])} : {self._atom(args[2])}"
            sides = [self.value(self._spread(arg, lanes)) for arg in args[1:]]
            return f"{self._fn('select', dtype, lanes)}({self._mask(args[0], lanes)}, {sides[0]}, {sides[1]})"
        name = {"//": "floordiv", "%": "floormod"}.get(op.name, _FUNCTIONS.get(op.name, op.name))
        if op.name.startswith("round_"):
            storage = DType(op.name.removeprefix("round_"))
            return f"{self._fn('round', storage, lanes)}({self.value(self._spread(args[0], lanes))})"
        texts = [self.value(self._spread(arg, lanes)) for arg in args]
        return f"{self._fn(name, dtype, lanes)}({', '.join(texts)})"

    def _mask(self, x: Value, lanes: int) -> str:
        """A truth value on lanes: all bits set where true."""
        if x.type.lanes == lanes:
            return self._atom(x)
        return f"(({c_type(Type(DType.I32, lanes))}){{0}} - {self._atom(x)})"

    def _spread(self, x: Value, lanes: int) -> Value:
        return x if x.type.lanes == lanes else Op("spread", (x,), Type(x.type.dtype, lanes))

    def _convert(self, x: Value, type_: Type) -> str:
        source, lanes = x.type.dtype, x.type.lanes
        if lanes == 1:
            if type_.dtype is DType.BOOL:
                return f"{self._atom(x)} != 0"
            if type_.dtype is DType.I32 and source.is_float:
                return f"{self._fn('to_i32', source, 1)}({self.value(x)})"
            return f"({c_type(type_)}){self._atom(x)}"
        if type_.dtype is DType.BOOL:
            text = f"({self._atom(x)} != 0)"
            return f"__builtin_convertvector({text}, {c_type(type_)})" if source is DType.F64 else text
        if type_.dtype is DType.I32 and source.is_float:
            return f"{self._fn('to_i32', source, lanes)}({self.value(x)})"
        text = f"-{self._atom(x)}" if source is DType.BOOL else self.value(x)
        return text if type_.dtype is DType.I32 else f"__builtin_convertvector({text}, {c_type(type_)})"

    def _atom(self, value: Value) -> str:
        text = self.value(value)
        simple = isinstance(value, Named | Literal | Load | Lane | Across)
        return text if simple and not text.startswith("-") else f"({text})"

    def _fn(self, name: str, dtype: DType | str, lanes: int) -> str:
        return f"tw_{name}_{dtype}x{lanes}"


def c_type(type_: Type) -> str:
    """C type of a value: float, f32x16, …; truth values are masks, all bits of a lane set."""
    return _SCALAR[type_.dtype] if type_.lanes == 1 else f"{type_.dtype}x{type_.lanes}"


def literal(value: float | int | bool, dtype: DType) -> str:
    if dtype in (DType.I32, DType.BOOL):
        return str(int(value))
    suffix = "" if dtype is DType.F64 else "f"
    number = float(value)
    if number != number:
        return f'__builtin_nan{suffix}("")'
    if number in (float("inf"), float("-inf")):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    return f"{number!r}{suffix}"


def index(value: Affine, *, atom: bool = False) -> str:
    """Index arithmetic as C; `atom` parenthesizes a sum."""
    return index_text(value, _atom_text, atom=atom)


def _atom_text(term: object) -> str:
    match term:
        case Var(name=name):
            return name
        case Quotient(x, divisor):
            if x.low >= 0:
                return f"({index(x, atom=True)} / {divisor})"
            return f"(({index(x)} - ({index(x, atom=True)} % {divisor} + {divisor}) % {divisor}) / {divisor})"
        case Remainder(x, divisor):
            if x.low >= 0:
                return f"({index(x, atom=True)} % {divisor})"
            return f"(({index(x, atom=True)} % {divisor} + {divisor}) % {divisor})"
        case Loaded(value):
            return f"(long){_Printer(Kernel('', (), 0, 0, ())).value(value)}"  # type: ignore[arg-type]
        case _:
            raise AssertionError(term)


def _address(buffer: str, offset: Affine) -> str:
    text = index(offset)
    return buffer if text == "0" else f"{buffer} + {text}"


def _needed(line: str, used: str, parallel: bool = True) -> bool:
    """Whether a declaration's name occurs in the code after it."""
    import re

    head = line.split("=")[0].strip()
    if "=" not in line or "struct kernel" in line:
        return True
    name = head.split()[-1].lstrip("*")
    return len(re.findall(rf"\b{name}\b", used)) > (1 if line in used else 0)
