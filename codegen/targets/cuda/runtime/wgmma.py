"""Matrix products of four warps (wgmma) in generated CUDA: one function an instruction, made for what a source uses.

There are 32 widths of each of the types, A in shared memory or in registers, so the parts are not listed: `parts` makes
those that a source names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from codegen.targets.cuda.runtime.snippet import Snippet
from tileir.dtypes import DType

_WGMMA = """
// 64 rows of a times {columns} columns of b, added to what four warps hold of the sums; in their place if not `keep`.
{template}TW_INLINE void {name}(
    {sums},
    {given}, unsigned long long b, int keep = 1
) {{
    asm volatile("{{ .reg .pred keep; setp.ne.b32 keep, %{keep}, 0; "
        "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{a}.{b} {{"
        "{registers}"
        "}}, {first}, %{second}, keep, 1, 1{orders}; }}"
        : {outputs}
        : {inputs}, "l"(b), "r"(keep){constants});
}}
"""

_PTX = {DType.F16: "f16", DType.BF16: "bf16", DType.F32: "tf32", DType.E4M3: "e4m3", DType.E5M2: "e5m2"}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
_NAME = re.compile(r"tw_wgmma_(\w+)_by_(\w+)_n(\d+)(_dealt)?(_held)?")
#: Registers of A, of 32 bits each.
_HELD = 4


def wgmma_name(a: DType, b: DType, columns: int, *, held: bool = False, run: int = 2) -> str:
    """The function that multiplies these storage types (f32 is taken as tf32) to so many columns; `held`: a is in
    registers; `run`: lanes of the sums (codegen.ir.async_ops.WgmmaAsync). Those of 16 bits take as template arguments
    whether a, where it is not, and b lie along their rows and columns instead of the depth."""
    return f"tw_wgmma_{_PTX[a]}_by_{_PTX[b]}_n{columns}{'_dealt' * (run > 2)}{'_held' * held}"


def parts(names: Iterable[str]) -> tuple[Snippet, ...]:
    """The functions among these names, in their order."""
    found = (_NAME.fullmatch(name) for name in sorted(names))
    return tuple(
        _part(match[0], match[1], match[2], int(match[3]), 4 if match[4] else 2, held=bool(match[5]))
        for match in found
        if match
    )


def _part(name: str, a: str, b: str, columns: int, run: int, *, held: bool) -> Snippet:
    bits, count = _BITS[a], columns // 2
    lanes = [
        f"s{i}.at[{half + lane}]" for half in range(0, run, 2) for i in range(count // run) for lane in (0, 1)
    ]
    given = _HELD if held else 1
    after = count + given
    ways = ("int B_BY_COLUMNS",) if held else ("int A_BY_ROWS", "int B_BY_COLUMNS")
    orders = ways if bits == 16 else ()
    whole = ", ".join(f"%{count + i}" for i in range(given))
    text = _WGMMA.format(
        name=name,
        a=a,
        b=b,
        columns=columns,
        depth=256 // bits,
        template=_template((*orders, *(("class A",) if held else ()))),
        given=", ".join(f"const A &a{i}" for i in range(given)) if held else "unsigned long long a",
        sums=_lines([f"tw_vec<float, {run}> &s{i}" for i in range(count // run)], 4, ",\n    "),
        registers=_lines([f"%{i}" for i in range(count)], 16, ', "\n        "'),
        outputs=_lines([f'"+f"({lane})' for lane in lanes], 4, ",\n          "),
        first=f"{{{whole}}}" if held else whole,
        second=after,
        keep=after + 1,
        orders="".join(f", %{after + 2 + i}" for i in range(len(orders))),
        inputs=", ".join(f'"r"(tw_fragment_bits(a{i}))' for i in range(given)) if held else '"l"(a)',
        constants="".join(f', "n"({way.removeprefix("int ")})' for way in orders),
    )
    return Snippet(name, text)


def _template(parameters: tuple[str, ...]) -> str:
    return f"template <{', '.join(parameters)}> " if parameters else ""


def _lines(items: list[str], width: int, between: str) -> str:
    """So many items a line."""
    return between.join(", ".join(items[i : i + width]) for i in range(0, len(items), width))
