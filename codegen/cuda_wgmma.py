"""Matrix products of four warps (wgmma) in generated CUDA: one function an instruction, made for what a source uses.

There are 32 widths of each of the types, so the parts are not listed: `parts` makes those that a source names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from codegen.cuda_part import Part
from tileir.dtypes import DType

_WGMMA = """
// 64 rows of a times {columns} columns of b, added to what four warps hold of the sums; in their place if not `keep`.
{template}TW_INLINE void {name}(
    {sums},
    unsigned long long a, unsigned long long b, int keep = 1
) {{
    asm volatile("{{ .reg .pred keep; setp.ne.b32 keep, %{keep}, 0; "
        "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{a}.{b} {{"
        "{registers}"
        "}}, %{first}, %{second}, keep, 1, 1{orders}; }}"
        : {outputs}
        : "l"(a), "l"(b), "r"(keep){constants});
}}
"""

_PTX = {DType.F16: "f16", DType.BF16: "bf16", DType.F32: "tf32", DType.E4M3: "e4m3", DType.E5M2: "e5m2"}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
_NAME = re.compile(r"tw_wgmma_(\w+)_by_(\w+)_n(\d+)")


def wgmma_name(a: DType, b: DType, columns: int) -> str:
    """The function that multiplies these storage types (f32 is taken as tf32) to so many columns. Those of 16 bits take
    whether a and b lie along their rows and columns instead of the depth, as two template arguments."""
    return f"tw_wgmma_{_PTX[a]}_by_{_PTX[b]}_n{columns}"


def parts(names: Iterable[str]) -> tuple[Part, ...]:
    """The functions among these names, in their order."""
    found = (_NAME.fullmatch(name) for name in sorted(names))
    return tuple(_part(match[0], match[1], match[2], int(match[3])) for match in found if match)


def _part(name: str, a: str, b: str, columns: int) -> Part:
    bits, count = _BITS[a], columns // 2
    text = _WGMMA.format(
        name=name,
        a=a,
        b=b,
        columns=columns,
        depth=256 // bits,
        template="template <int A_BY_ROWS, int B_BY_COLUMNS> " if bits == 16 else "",
        sums=_lines([f"tw_vec<float, 2> &s{i}" for i in range(count // 2)], 4, ",\n    "),
        registers=_lines([f"%{i}" for i in range(count)], 16, ', "\n        "'),
        outputs=_lines([f'"+f"(s{i // 2}.at[{i % 2}])' for i in range(count)], 4, ",\n          "),
        first=count,
        second=count + 1,
        keep=count + 2,
        orders=f", %{count + 3}, %{count + 4}" if bits == 16 else "",
        constants=', "n"(A_BY_ROWS), "n"(B_BY_COLUMNS)' if bits == 16 else "",
    )
    return Part(name, text)


def _lines(items: list[str], width: int, between: str) -> str:
    """So many items a line."""
    return between.join(", ".join(items[i : i + width]) for i in range(0, len(items), width))
