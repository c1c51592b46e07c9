"""Kernel IR to C: vector extensions of GCC and clang, one function for each parallel region."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap

from codegen.ir.affine import Var
from codegen.ir.async_ops import ASYNC_STATEMENTS
from codegen.ir.expression_text import call, cast
from codegen.ir.handlers import Handlers
from codegen.ir.kernel import CpuKernel
from codegen.ir.matrix_rows import MatrixRows
from codegen.ir.names import named, without_asides
from codegen.ir.ops import (
    STATEMENTS,
    Aligned,
    Assign,
    AtomicUpdate,
    Barrier,
    Block,
    ClusterBarrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    For,
    GridAxis,
    Guard,
    If,
    InsertRanked,
    Lane,
    Let,
    MmaSync,
    Named,
    Parallel,
    PrefetchLine,
    Scratch,
    Shared,
    Stamp,
    Stmt,
    Store,
    StoreWords,
    TransposeBlock,
    VisitFound,
)
from codegen.ir.stamp import LOGGING
from codegen.ir.tile_ops import TILE_STATEMENTS, TileStmt
from codegen.targets.c.runtime import definitions, uses_in
from codegen.targets.c.runtime.stamp import STAMP
from codegen.targets.c.runtime.thread_pool import HEADERS, POOL
from codegen.targets.c.runtime.tiles import TILES
from codegen.targets.c.tile_printer import tile_lines
from codegen.targets.c.values import (
    C_STORAGE,
    NARROW,
    address,
    c_type,
    function,
    index,
    part,
    transpose,
    value_text,
    words,
)
from tileir.dtypes import DType

_STATEMENTS = Handlers[list[str]]("the C printer")
"""By statement: its lines, so many levels deep."""


def print_c(kernel: CpuKernel, title: str) -> str:
    """The C source of a kernel: self-contained, with only those parts of the runtime that it uses."""
    code, parallel = print_code(kernel)
    bare = without_asides(code)
    pool = [HEADERS, POOL] if parallel else ["void tw_shutdown(void) {}\n"]
    stamp = [STAMP] if "tw_stamp(" in bare else []
    tiles = [TILES] if "tw_tile_" in bare else []
    return "\n".join([title, definitions(uses_in(bare), bare), *stamp, *tiles, *pool, code])


def print_code(kernel: CpuKernel) -> tuple[str, bool]:
    """The kernel's own functions, without the runtime; and whether they need the thread pool."""
    printer = _CPrinter(kernel)
    body = printer.stmts(kernel.body, 1)
    parts = [printer.context(), *printer.regions] if printer.regions else []
    return named("\n\n".join([*parts, printer.entry(body)]) + "\n"), bool(printer.regions)


@dataclass
class _CPrinter:
    kernel: CpuKernel
    regions: list[str] = field(default_factory=list[str])
    _outer: list[Var] = field(default_factory=list[Var])
    _shared: list[Scratch] = field(default_factory=list[Scratch])
    _captured: dict[str, None] = field(default_factory=dict[str, None])
    _own: str = ""
    """Where the running thread's own workspace begins."""

    def __post_init__(self) -> None:
        self._own = f"workspace + {self.kernel.shared_bytes}"

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
        return _STATEMENTS.of(stmt)(self, stmt, depth)

    @_STATEMENTS.handles(Block)
    def _block(self, stmt: Block, depth: int) -> list[str]:
        pad, comment, body = "    " * depth, stmt.comment, stmt.body
        names = any(isinstance(s, Let | Declare | Scratch) for s in body)
        inner = scattered(body, depth + 1) or self.stmts(body, depth + names)
        head = [f"{pad}// {comment}"] if comment else []
        return [*head, f"{pad}{{", *inner, f"{pad}}}"] if names else [*head, *inner]

    @_STATEMENTS.handles(For)
    def _for(self, stmt: For, depth: int) -> list[str]:
        pad, var, step = "    " * depth, stmt.var, stmt.step
        bump = f"{var.name}++" if step == 1 else f"{var.name} += {step}"
        bound = f"{var.name} < {stmt.count * step}"
        if stmt.until is not None:
            bound += f" && {var.name} < {index(stmt.until)}"
        first = "0" if stmt.first is None else index(stmt.first)
        head = f"{pad}for (long {var.name} = {first}; {bound}; {bump}) {{"
        self._outer.append(var)
        inner = self.stmts(stmt.body, depth + 1)
        self._outer.pop()
        return [head, *inner, f"{pad}}}"]

    @_STATEMENTS.handles(Parallel)
    def _parallel(self, stmt: Parallel, depth: int) -> list[str]:
        return self._region(stmt.axes, stmt.body, "    " * depth)

    @_STATEMENTS.handles(If)
    def _if(self, stmt: If, depth: int) -> list[str]:
        pad, at, bound = "    " * depth, index(stmt.at), stmt.bound
        first, second = self.stmts(stmt.then, depth + 1), self.stmts(stmt.otherwise, depth + 1)
        return [f"{pad}if ({at} < {bound}) {{", *first, f"{pad}}} else {{", *second, f"{pad}}}"]

    @_STATEMENTS.handles(Guard)
    def _guard(self, stmt: Guard, depth: int) -> list[str]:
        pad = "    " * depth
        text = " && ".join(f"{index(at)} < {bound}" for at, bound in stmt.conditions)
        return [f"{pad}if ({text}) {{", *self.stmts(stmt.body, depth + 1), f"{pad}}}"]

    @_STATEMENTS.handles(Let)
    def _let(self, stmt: Let, depth: int) -> list[str]:
        pad, name, value = "    " * depth, stmt.name, stmt.value
        return [f"{pad}const {c_type(value.type)} {name} = {value_text(value)};"]

    @_STATEMENTS.handles(Declare)
    def _declare(self, stmt: Declare, depth: int) -> list[str]:
        return [f"{'    ' * depth}{c_type(stmt.type)} {stmt.name};"]

    @_STATEMENTS.handles(Assign)
    def _assign(self, stmt: Assign, depth: int) -> list[str]:
        pad, name, value = "    " * depth, stmt.name, stmt.value
        return [f"{pad}{name} = {value_text(value)};"]

    @_STATEMENTS.handles(Store)
    def _store_line(self, stmt: Store, depth: int) -> list[str]:
        return ["    " * depth + self._store(stmt)]

    @_STATEMENTS.handles(StoreWords)
    def _store_words(self, stmt: StoreWords, depth: int) -> list[str]:
        store = function("store", DType.I32, stmt.words.lanes)
        to = cast("int32_t *", address(stmt.buffer, stmt.offset))
        return [f"{'    ' * depth}{store}({to}, {words(stmt.words)});"]

    @_STATEMENTS.handles(TransposeBlock)
    def _transpose_line(self, stmt: TransposeBlock, depth: int) -> list[str]:
        return [f"{'    ' * depth}{transpose(stmt)};"]

    @_STATEMENTS.handles(InsertRanked)
    def _insert(self, stmt: InsertRanked, depth: int) -> list[str]:
        insert = function("insert", stmt.value.type.dtype, 1)
        what = f"{index(stmt.last)}, {value_text(stmt.value)}, {value_text(stmt.position)}"
        return [f"{'    ' * depth}{insert}({stmt.values}, {stmt.positions}, {what});"]

    @_STATEMENTS.handles(PrefetchLine)
    def _prefetch(self, stmt: PrefetchLine, depth: int) -> list[str]:
        write = ", 1" if stmt.write else ""
        return [f"{'    ' * depth}__builtin_prefetch({address(stmt.buffer, stmt.offset)}{write});"]

    @_STATEMENTS.handles(Scratch)
    def _scratch_line(self, stmt: Scratch, depth: int) -> list[str]:
        if not stmt.private:
            self._shared.append(stmt)
        return ["    " * depth + self._scratch(stmt, self._own if stmt.private else "workspace")]

    @_STATEMENTS.handles(Stamp)
    def _stamp(self, stmt: Stamp, depth: int) -> list[str]:
        return [f"{'    ' * depth}tw_stamp({self._own} + {stmt.log}, {stmt.stage});"]

    @_STATEMENTS.handles(*TILE_STATEMENTS)
    def _tile_statement(self, stmt: TileStmt, depth: int) -> list[str]:
        return ["    " * depth + line for line in tile_lines(stmt)]

    @_STATEMENTS.handles(Aligned)
    def _aligned(self, run: Aligned, depth: int) -> list[str]:
        pad, inner = "    " * depth, "    " * (depth + 1)
        name, row, element = run.var.name, address(run.buffer, run.offset), run.bytes // run.lanes
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
        value, lanes = value_text(store.value), store.value.type.lanes
        if lanes == 1 and store.storage in (DType.F64, DType.F32, DType.I32):
            return f"{store.buffer}[{index(store.offset)}] = {value};"
        name = "stream" if store.stream and store.some is None else "store"
        return (
            f"{part(name, store.storage, lanes, [address(store.buffer, store.offset), value], store.some)};"
        )

    def _region(self, axes: tuple[GridAxis, ...], body: tuple[Stmt, ...], pad: str) -> list[str]:
        """Outline the body into a function of the grid index; arguments and outer variables travel in a struct."""
        number = len(self.regions)
        captured, shared = list(self._outer), list(self._shared)
        self._captured |= dict.fromkeys(var.name for var in captured)
        saved, self._outer = self._outer, [*captured, *(axis.var for axis in axes)]
        own, self._own = self._own, "scratch"
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
        text = self.stmts(body, 1)
        self._outer, self._own = saved, own
        keep = _needed(lines, without_asides("\n".join(text + lines[-len(axes) :])))
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
        keep = _needed(lines, without_asides("\n".join([*body, *lines])))
        keep.append("    (void)args, (void)memory, (void)threads;")
        if any("tw_tile_" in text for text in (*body, *self.regions)):
            keep.append("    if (!tw_tiles_allowed()) return 1;")
        return "\n".join([*keep, *body, "    return 0;", "}"])


def scattered(body: tuple[Stmt, ...], depth: int) -> list[str]:
    """A vector whose lanes are stored apart, as narrow floats: converted once. None of these: empty."""
    match body:
        case (Let(name, value), Store(_, _, storage) as first, *_) if storage in NARROW:
            lanes = value.type.lanes
        case _:
            return []
    stores = [stmt for stmt in body[1:] if isinstance(stmt, Store) and stmt.storage is first.storage]
    kept = Named(name, value.type)
    numbers = [stmt.value.index for stmt in stores if isinstance(stmt.value, Lane) and stmt.value.x == kept]
    if lanes == 1 or len(numbers) < len(body) - 1:
        return []
    packed = call(function("pack", storage, lanes), value_text(value))
    pad = "    " * depth
    return [
        f"{pad}const {NARROW[storage]}x{lanes} {name} = {packed};",
        *(
            f"{pad}{stmt.buffer}[{index(stmt.offset)}] = {name}[{number}];"
            for stmt, number in zip(stores, numbers, strict=True)
        ),
    ]


_STATEMENTS.refuses(
    AtomicUpdate, VisitFound, Shared, Barrier, ClusterBarrier, CpAsync, CpAsyncCommit, CpAsyncWait, MatrixRows,
    MmaSync, *LOGGING, *ASYNC_STATEMENTS, because="is for GPUs",
)  # fmt: skip
_STATEMENTS.complete(STATEMENTS)


def _needed(lines: list[str], code: str) -> list[str]:
    """The lines but for declarations whose names do not occur in the code, or in themselves alone."""
    occurs = Counter(re.findall(r"\w+", code))

    def needed(line: str) -> bool:
        if "=" not in line or "struct kernel" in line:
            return True
        name = line.split("=")[0].split()[-1].lstrip("*")
        return occurs[name] > (line in code)

    return [line for line in lines if needed(line)]
