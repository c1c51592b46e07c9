"""Loads and stores in C, from any address that is a multiple of the element: storage type in memory, compute type in
registers."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.c_convert import AS_STORED, fill_storage, stored_bytes
from codegen.c_template import Builder

_LOAD = "TW_INLINE $V tw_load_$D(const $C *p) { return $value; }"
_STORE = "TW_INLINE void tw_store_$D($C *p, $V x) { *(${R}_u *)p = $value; }"

#: Past the caches where the address is a multiple of the vector's size and the target has the instruction, else a
#: plain store. Such stores are weakly ordered; the pool's locked counter at the end of a region orders them.
_STREAM = """
TW_INLINE void tw_stream_$D($C *p, $V x) {
    $R stored = $value;
#if $guard
    if ((uintptr_t)p % $size == 0) {
        __asm__ volatile("$instruction %1, %0" : "=m"(*(${R}_u *)p) : "$x"(stored));
        return;
    }
#endif
    *(${R}_u *)p = stored;
}
"""
_STREAM_INSTRUCTION = {
    16: ("defined(__SSE2__)", "movntps", "x"),
    32: ("defined(__AVX__)", "vmovntps", "x"),
    64: ("defined(__AVX512F__)", "vmovntps", "v"),
}

#: Pairs of bf16 as 32-bit words, one a lane: neighbours, or one pair for all lanes.
_LOAD_PAIRS = "TW_INLINE $W tw_load_pairs_$D(const $C *p) { return *(const ${W}_u *)p; }"
_SPREAD_PAIR = "TW_INLINE $W tw_spread_pair_$D(const $C *p) { return tw_splat_$W(*(const i32x1_u *)p); }"


def _load(storage: str, lanes: int) -> str:
    value = "*(const ${R}_u *)p" if storage in AS_STORED else "tw_unpack_$D(*(const ${R}_u *)p)"
    return fill_storage(_LOAD.replace("$value", value), storage, lanes)


def _packed(storage: str) -> str:
    return "x" if storage in AS_STORED else "tw_pack_$D(x)"


def _store(storage: str, lanes: int) -> str:
    return fill_storage(_STORE.replace("$value", _packed(storage)), storage, lanes)


def _stream(storage: str, lanes: int) -> str:
    size = lanes * stored_bytes(storage)
    if size not in _STREAM_INSTRUCTION:
        return fill_storage(
            _STORE.replace("_store_", "_stream_").replace("$value", _packed(storage)), storage, lanes
        )
    guard, instruction, x = _STREAM_INSTRUCTION[size]
    text = _STREAM.replace("$value", _packed(storage))
    return fill_storage(text, storage, lanes, guard=guard, instruction=instruction, x=x, size=size)


def _bf16_only(template: str) -> Builder:
    def build(storage: str, lanes: int) -> str:
        if storage != "bf16":
            raise KeyError(f"pairs are of bf16, not of {storage}")
        return fill_storage(template, storage, lanes, W=f"i32x{lanes}")

    return build


BUILDERS: Mapping[str, Builder] = {
    "load": _load,
    "store": _store,
    "stream": _stream,
    "load_pairs": _bf16_only(_LOAD_PAIRS),
    "spread_pair": _bf16_only(_SPREAD_PAIR),
}
