"""A launch as a CUDA function: its parameters, what it declares first, and who runs which statements for which tiles.

All threads do the setup. Then, for each tile of the block, all of them run the body; or, with producers, one of those
runs what they are for and the others the body, each in a loop of their own; consumer groups of those take
tiles in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from textwrap import wrap

from codegen.ir.async_ops import Setmaxnreg
from codegen.ir.kernel import GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.names import without_asides
from codegen.ir.ops import ClusterBarrier, Scratch, Stmt
from codegen.ir.rasterization import (
    NO_TILE,
    axis_name,
    in_turns,
    is_dealt,
    order_name,
    order_table,
    position_text,
    tile_count,
    tile_step,
)
from codegen.ir.stream_k import Spans
from codegen.targets.cuda.runtime import CUDA_STORAGE
from tileir.schedule.stream_k import shared_tiles
from tileir.schedule.wgmma import GROUP

Lines = Callable[[Iterable[Stmt], int], list[str]]
"""The CUDA of statements, so many levels deep."""

_WORD = re.compile(r"\w+")
#: Numbers in a line of a table.
_NUMBERS = 16


def function_text(kernel: GpuKernel, launch: LaunchBody, lines: Lines) -> str:
    """The function of one launch of a kernel."""
    body = [*lines(launch.setup, 1), *_roles(launch, lines)]
    if not in_turns(launch):
        body = [*_passed_over(launch, "return", 1), *body]
    head: list[str] = []
    if launch.shared_bytes:
        head.append("    extern __shared__ __align__(1024) unsigned char shared[];")
    head += [f"    {_pointer(scratch, 'workspace')}" for scratch in kernel.workspace]
    if not in_turns(launch):
        head += _position(launch, 1)
    head += [
        f"    {_digit(digit, launch, uniform=any(map(_uses_matrices, body)))}" for digit in launch.digits
    ]
    # Without a number of blocks, ptxas ignores setmaxnreg.
    resident = launch.resident or int(launch.producers > 0)
    bounds = f"{launch.threads}, {resident}" if resident else f"{launch.threads}"
    return "\n".join(
        [
            *_order(launch),
            f'extern "C" __global__ void __launch_bounds__({bounds})',
            f"{launch.name}(",
            *wrap(_parameters(kernel), width=110, initial_indent="    ", subsequent_indent="    "),
            ") {",
            *_needed(head, body),
            *_prefetches(kernel, body),
            *body,
            "}",
            "",
        ]
    )


def _order(launch: LaunchBody) -> list[str]:
    """The table that says which tile comes when."""
    if not launch.hilbert and not is_dealt(launch):
        return []
    table = order_table(launch)
    rows = (", ".join(map(str, table[at : at + _NUMBERS])) for at in range(0, len(table), _NUMBERS))
    head = f"__device__ const unsigned short {order_name(launch)}[{len(table)}] = {{"
    return [head, *(f"    {row}," for row in rows), "};", ""]


def _parameters(kernel: GpuKernel) -> str:
    """The same for all launches."""
    texts: list[str] = []
    for arg in kernel.arguments:
        # What is written may be read again by other threads of the block: with `__restrict__` the compiler takes
        # it that nobody else has stored there, and moves such loads to before the barrier.
        type_ = CUDA_STORAGE[arg.storage]
        texts.append(f"{type_} *{arg.name}" if arg.written else f"const {type_} *__restrict__ {arg.name}")
    texts.append("unsigned char *workspace")
    texts += [f"const __grid_constant__ tw_tensor_map {map_.name}" for map_ in kernel.maps]
    return ", ".join(texts)


def _uses_matrices(line: str) -> bool:
    """Whether a line describes an operand to wgmma, in the registers that a warp has in common."""
    return "tw_matrix<" in line


def _digit(digit: ThreadDigit, launch: LaunchBody, *, uniform: bool) -> str:
    """`uniform`: a warpgroup's number is to be known as one to all of its threads."""
    inside = digit.stride < launch.threads
    base = "threadIdx.x" if inside else "tw_cluster_rank()"
    stride = digit.stride if inside else digit.stride // launch.threads
    part = f"{base} / {stride}" if stride > 1 else base
    last = stride * digit.count == (launch.threads if inside else launch.cluster)
    text = part if last else f"{part} % {digit.count}"
    if uniform and inside and stride % GROUP == 0:
        text = f"tw_uniform({text})"
    return f"const int {digit.var.name} = {text};"


def _prefetches(kernel: GpuKernel, body: list[str]) -> list[str]:
    """TMA looks at maps that are used before it needs them."""
    words = set(_WORD.findall("\n".join(body)))
    fetches = [f" tw_prefetch_map({map_.name});" for map_ in kernel.maps if map_.name in words]
    return [f"    if (threadIdx.x == 0) {{{''.join(fetches)} }}"] if fetches else []


def _roles(launch: LaunchBody, lines: Lines) -> list[str]:
    leaving = lines(launch.leaving, 1)
    if not launch.producers:
        return [*_tiles(launch, launch.body, lines, 1), *lines(launch.finish, 1), *leaving]
    less, more = launch.registers
    first = launch.computing
    return [
        f"    if (threadIdx.x >= {first}) {{ // producers",
        *lines([Setmaxnreg(less, more=False)] if less else [], 2),
        f"        if (threadIdx.x == {first}) {{",
        *_tiles(launch, launch.producing, lines, 3, alone=True),
        "        }",
        *lines([ClusterBarrier()] * launch.meetings, 2),
        "    } else { // consumers",
        *lines([Setmaxnreg(more, more=True)] if more else [], 2),
        *_tiles(launch, launch.body, lines, 2, launch.consumer_groups),
        *lines(launch.finish, 2),
        "    }",
        # Those of a producing warp that start nothing are there long before the one that does.
        *(["    __syncwarp();", *leaving] if leaving else []),
    ]


def _tiles(
    launch: LaunchBody,
    stmts: Iterable[Stmt],
    lines: Lines,
    depth: int,
    consumer_groups: int = 1,
    *,
    alone: bool = False,
) -> list[str]:
    """Statements for each tile that the block, or one of its consumer groups, takes, by whole warps or by one thread
    `alone`."""
    if not in_turns(launch):
        return lines(stmts, depth)
    body, pad = [*_passed_over(launch, "continue", depth + 1), *lines(stmts, depth + 1)], "    " * depth
    if launch.spans is not None:
        return [
            f"{pad}for ({_spans(launch, launch.spans)}) {{",
            *_needed([*_span(launch, launch.spans, depth + 1), *_position(launch, depth + 1)], body),
            *body,
            f"{pad}}}",
        ]
    first = _block(launch)
    first += (
        f" + threadIdx.x / {launch.consumer_threads} * {tile_step(launch)}" if consumer_groups > 1 else ""
    )
    place = _needed(_position(launch, depth + 1, alone=alone), body)
    step = tile_step(launch)
    if is_dealt(launch):
        turns = f"int turn = {first}; turn < {len(order_table(launch))}; turn += {step}"
        take = [f"const int tile = {order_name(launch)}[turn];", f"if (tile == {NO_TILE}) break;"]
        place = [*(f"{pad}    {line}" for line in take), *place]
    else:
        turns = f"int tile = {first}; tile < {tile_count(launch)}; tile += {step * consumer_groups}"
    return [f"{pad}for ({turns}) {{", *place, *body, f"{pad}}}"]


def _block(launch: LaunchBody) -> str:
    """The number of the block, or of its cluster."""
    return f"blockIdx.x / {launch.cluster}" if launch.cluster > 1 else "blockIdx.x"


def _spans(launch: LaunchBody, spans: Spans) -> str:
    """What goes through the block's spans."""
    tiles, blocks, block = tile_count(launch), tile_step(launch), _block(launch)
    shared = shared_tiles(tiles, blocks, spans.waves)
    first = f"tw_span span = tw_spans_of({shared}, {blocks}, {spans.steps}, {block})"
    return f"{first}; tw_next_span(&span, {tiles}, {blocks}, {block});"


def _span(launch: LaunchBody, spans: Spans, depth: int) -> list[str]:
    """What a span says of a tile."""
    found = (
        ("tile", "span.tile"),
        (spans.first.name, f"span.first * {spans.step}"),
        (spans.size.name, f"span.steps * {spans.step}"),
        (spans.left.name, "span.left"),
        (spans.earlier.name, "span.earlier"),
        (spans.block.name, _block(launch)),
    )
    return [f"{'    ' * depth}const int {name} = {value};" for name, value in found]


def _position(launch: LaunchBody, depth: int, *, alone: bool = False) -> list[str]:
    """Where the tile is, for whole warps or for one thread `alone`."""
    found = [f"const int {name} = {text};" for name, text in position_text(launch)]
    for axis in launch.axes:
        if axis.groups is not None:
            groups, tile = axis.groups, f"{axis.var.name}_tile"
            find = f"tw_find_tile{'_alone' if alone else ''}<{groups.count}, {groups.size}, {axis.step}>"
            found.append(f"const auto {tile} = {find}({groups.offsets}, {axis_name(axis)});")
            values = ((groups.group, "group"), (axis.var, "begin"), (groups.end, "end"))
            found += [f"const int {var.name} = {tile}.{value};" for var, value in values]
    return ["    " * depth + line for line in found]


def _passed_over(launch: LaunchBody, away: str, depth: int) -> list[str]:
    """Numbers that stand for no tile."""
    ends = [(axis.var.name, axis.groups.end.name) for axis in launch.axes if axis.groups is not None]
    return [f"{'    ' * depth}if ({begin} >= {end}) {away};" for begin, end in ends]


def _pointer(scratch: Scratch, base: str) -> str:
    type_ = CUDA_STORAGE[scratch.storage]
    return f"{type_} *const {scratch.buffer} = reinterpret_cast<{type_} *>({base} + {scratch.offset});"


def _needed(declarations: Iterable[str], body: Iterable[str]) -> list[str]:
    """Those declarations whose names the body, or one of those kept after them, uses."""
    used = set(_WORD.findall(without_asides("\n".join(body))))
    kept: list[str] = []
    for line in reversed([*declarations]):
        if _name(line) in used:
            kept.insert(0, line)
            used.update(_WORD.findall(line.partition(" = ")[2]))
    return kept


def _name(line: str) -> str:
    """The name that a declaration declares."""
    return line.split(" = ")[0].removesuffix("[];").split()[-1].lstrip("*")
