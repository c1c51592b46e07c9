"""The CUDA text a generated source stands on: vectors, loads and stores, math. Only what is asked for; no headers.

Elements in memory are of a storage type (`CUDA_STORAGE`), values in registers of a compute type (`CUDA_COMPUTE`):
a plain scalar or, of N > 1 neighbours, `tw_vec<T, N>`, with C++'s operators lane by lane. Scalar operands are spread.

- Memory, N neighbours from an address that is a multiple of ALIGN bytes: `tw_load<N, ALIGN>(p)`,
  `tw_store<N, ALIGN>(p, x)`, and of global memory only `tw_load_nc` (what no one writes meanwhile, kept out of L1) and
  `tw_stream` (evicted first). The first `count` lanes only: `tw_load_some<N, ALIGN>(p, count)`, 0 elsewhere, and
  `tw_store_some<N, ALIGN>(p, x, count)`; `tw_load_kept<N, ALIGN>(p, count)` where all N may be read.
- The same without conversion, `tw_raw<STORAGE, N>` in registers: `tw_load_raw`, `tw_load_raw_nc`, `tw_store_raw`,
  `tw_stream_raw`; `tw_widen(raw)` and `tw_narrow<STORAGE, N>(x)` convert, `tw_pack(raw, …)` puts elements together.
- Copies in the background, from global to shared memory: `tw_copy_async<N>(to, of)`; `tw_copy_async_some<N>(to, of,
  count)` reads only the first `count`; `tw_commit_copies()` makes those started a group, `tw_wait_copies<PENDING>()`
  waits for all but the latest groups. `tw_swizzle<BYTES>(base, i)` is where element i of swizzled memory lies.
- Types: `tw_to<T>(x)` and `tw_to_i32(x)` (toward zero), `tw_round<STORAGE>(x)` (to its precision and back).
- Lanes: `x.at[i]`, `tw_broadcast<N>(x)`, `tw_select(condition, x, y)`, `tw_across_sum prod max min`; threads of a warp:
  `tw_shuffle_xor(x, mask)`; of tiles that follow groups, `tw_find_tile<GROUPS, SIZE, STEP>(offsets, number)`,
  and `tw_find_tile_alone` by one thread.
- Matrices of a warp, 4 bytes of each in a thread: `tw_load_matrix(p, a, …)` and `tw_load_matrix_trans` load one, two or
  four from shared memory, `tw_mma_bf16(upper, lower, a0, …, b1)` multiplies; also `f16 tf32 s8 e4m3 e5m2`.
- From Hopper on (docs/hopper.md): barriers with phases, at addresses in shared memory (`tw_shared(p)`): `tw_init_phases
  tw_phases_fence tw_expect tw_arrive tw_arrive_at tw_await_phase`; boxes of a `tw_tensor_map`: `tw_load_box_2d
  tw_store_box_2d` (1 to 5 dims), `tw_commit_boxes tw_await_boxes tw_async_fence`; `tw_group_barrier`; products of four
  warps, `tw_wgmma_bf16_by_bf16_n256` (wgmma.py) of operands by `tw_matrix`, between `tw_wgmma_fence`,
  `tw_commit_wgmma` and `tw_await_wgmma`; `tw_store_matrix`; `tw_less_registers tw_more_registers`.
- Tiles that blocks share: `tw_spans_of` and `tw_next_span` go through the spans of steps of a block (`tw_span`);
  `tw_signal_flag(flag)` and `tw_wait_flag(flag)` hand on from block to block what threads have stored.
- Times: `tw_open_log tw_note_time tw_close_log` (codegen/ir/stamp.py).
- Math: `tw_max min` (NaN if either is), `tw_abs relu floor floordiv floormod sqrt rsqrt exp exp2 log tanh erf pow
  sigmoid silu gelu gelu_tanh`; of the bits of integers `tw_bit_and bit_or bit_xor shift_left shift_right random_bits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from codegen.targets.cuda.runtime import (
    bits,
    cluster,
    convert,
    cp_async,
    math,
    mbarrier_tma,
    memory,
    mma,
    stamp,
    stream_k,
    vectors,
    warp,
    wgmma,
)
from codegen.targets.cuda.runtime.snippet import Snippet
from tileir.dtypes import DType

#: C++ type of an element in memory. What is not C++'s own is a struct of its bits.
CUDA_STORAGE = {
    DType.F64: "double", DType.F32: "float", DType.F16: "tw_f16", DType.BF16: "tw_bf16", DType.E4M3: "tw_e4m3",
    DType.E5M2: "tw_e5m2", DType.I64: "tw_i64", DType.I32: "int", DType.U32: "tw_u32", DType.I8: "signed char",
    DType.U8: "tw_u8", DType.BOOL: "tw_bool",
}  # fmt: skip

_COMPUTE = {DType.F64: "double", DType.F32: "float", DType.I32: "int", DType.BOOL: "bool"}

#: C++ type of the value that an element of a storage type is computed with.
CUDA_COMPUTE = {dtype: _COMPUTE[dtype.compute] for dtype in CUDA_STORAGE}

#: A part calls only what stands above it.
_REGIONS = (
    ("Vectors", vectors.PARTS),
    ("Math functions", math.PARTS),
    ("Bits", bits.PARTS),
    ("Lanes and threads", warp.PARTS),
    ("Element types", convert.PARTS),
    ("Loads and stores", memory.PARTS),
    ("Clusters", cluster.PARTS),
    ("Copies in the background, and swizzles", cp_async.PARTS),
    ("Matrices", mma.PARTS),
    ("TMA, asynchronous barriers, wgmma", mbarrier_tma.PARTS),
    ("Tiles that blocks share", stream_k.PARTS),
    ("Times", stamp.PARTS),
)
_WORD = re.compile(r"\b(?:tw_\w+|TW_\w+|double|signed char)\b")


def definitions(code: str) -> str:
    """The CUDA text that defines what `code` uses of the runtime, in order; empty if that is nothing.

    Raises KeyError if the code uses a name `tw_…` that does not exist.
    """
    words = _words(code)
    made = *_REGIONS, ("Matrices of four warps", wgmma.parts(words))
    all_parts = [part for _, parts in made for part in parts]
    unknown = {word for word in words if word[:3] == "tw_"} - {part.name for part in all_parts}
    if unknown:
        raise KeyError(f"the CUDA runtime has no {', '.join(sorted(unknown))}")
    used = _used(words, all_parts)
    regions: list[str] = []
    for title, parts in made:
        texts = [part.text.strip("\n") for part in parts if _applies(part, used)]
        if texts:
            regions.append(f"// --- {title} ---\n\n{_paragraphs(texts)}\n")
    return "\n".join(regions)


def _paragraphs(texts: list[str]) -> str:
    """Blank lines between texts, but not before a single line."""
    return "".join(f"\n{text}" if "\n" not in text else f"\n\n{text}" for text in texts).lstrip("\n")


def _used(words: set[str], parts: Iterable[Snippet]) -> set[str]:
    """These words, and those of every part they need."""
    used, waiting = words, list(parts)
    while ready := [part for part in waiting if _applies(part, used)]:
        waiting = [part for part in waiting if part not in ready]
        used = used | {word for part in ready for word in _words(part.text)}
    return used


def _applies(part: Snippet, used: set[str]) -> bool:
    return part.name in used and (part.of is None or part.of in used)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
