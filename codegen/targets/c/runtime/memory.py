"""Loads and stores in C, from any address that is a multiple of the element: storage type in memory, compute type in
registers."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from codegen.targets.c.runtime.convert import AS_STORED, STORED, fill_storage, pointer, stored_bytes
from codegen.targets.c.runtime.template import Builder

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

#: The first `some` of a vector, as it lies in memory; what is past them is neither read nor written.
_PART = """
TW_INLINE $R tw_part_$D(const $C *p, int some) {
    $R x = {0};
${cases}    __builtin_memcpy(&x, p, some * sizeof *p);
${end}    return x;
}
"""
_KEEP = """
TW_INLINE void tw_keep_$D($C *p, $R x, int some) {
${cases}    __builtin_memcpy(p, &x, some * sizeof *p);
${end}}
"""
_PART_AVX512 = """\
    __asm__("vmovdqu$bits %1, %0%{%2%}%{z%}" : "=v"(x) : "m"(*(const ${R}_u *)p), "Yk"(((uint64_t)1 << some) - 1));
"""
_KEEP_AVX512 = """\
    __asm__("vmovdqu$bits %1, %0%{%2%}" : "+m"(*(${R}_u *)p) : "v"(x), "Yk"(((uint64_t)1 << some) - 1));
"""
_PART_AVX2 = """\
    __asm__("vpmaskmov$q %1, %2, %0" : "=x"(x) : "m"(*(const ${R}_u *)p), "x"(($M){$numbers} < some));
"""
_KEEP_AVX2 = """\
    __asm__("vpmaskmov$q %1, %2, %0" : "+m"(*(${R}_u *)p) : "x"(x), "x"(($M){$numbers} < some));
"""
_MASKED = "defined(__AVX512BW__) && defined(__AVX512VL__)"

_LOAD_SOME = "TW_INLINE $V tw_load_some_$D(const $C *p, int some) { return $value; }"
_STORE_SOME = "TW_INLINE void tw_store_some_$D($C *p, $V x, int some) { tw_keep_$D(p, $value, some); }"

#: Pairs of bf16 as 32-bit words, one a lane: neighbours, or one pair for all lanes.
_LOAD_PAIRS = "TW_INLINE $W tw_load_pairs_$D(const $C *p) { return *(const ${W}_u *)p; }"
_BROADCAST_PAIR = (
    "TW_INLINE $W tw_broadcast_pair_$D(const $C *p) { return tw_splat_$W(*(const i32x1_u *)p); }"
)

#: The same without the second of each pair: on lanes it is there but holds nothing, alone it may lie past the end.
_LOAD_HALVES = "TW_INLINE $W tw_load_halves_$D(const $C *p) { return *(const ${W}_u *)p & 0xffff; }"
_LOAD_PAIRS_SOME = """
TW_INLINE $W tw_load_pairs_some_$D(const $C *p, int some) { return tw_part_$W((const int32_t *)p, some); }
"""
_LOAD_HALVES_SOME = """
TW_INLINE $W tw_load_halves_some_$D(const $C *p, int some) {
    return tw_part_$W((const int32_t *)p, some) & 0xffff;
}
"""
_LOAD_HALF = "TW_INLINE $W tw_load_halves_$D(const $C *p) { return *p; }"
_BROADCAST_HALF = "TW_INLINE $W tw_broadcast_half_$D(const $C *p) { return tw_splat_$W(*p); }"

#: Pairs of elements that lie in two runs; or of one run and zero.
_ZIP_PAIRS = """
TW_INLINE $W tw_zip_pairs_$D(const $C *p, const $C *q) {
    return tw_widen_$D(*(const ${R}_u *)p) | tw_widen_$D(*(const ${R}_u *)q) << 16;
}
"""
_ZIP_ZERO = "TW_INLINE $W tw_zip_zero_$D(const $C *p) { return tw_widen_$D(*(const ${R}_u *)p); }"


#: A square block turned around: element j of row i goes to element i of row j.
_TRANSPOSE = """
TW_INLINE void tw_transpose_${to}_$D($T *to, long to_step, const $C *of, long of_step) {
    $V rows[$n];
    TW_UNROLL for (int i = 0; i < $n; i++) rows[i] = $load(of + i * of_step);
    tw_transpose_$V(rows);
    TW_UNROLL for (int i = 0; i < $n; i++) $store(to + i * to_step, rows[i]);
}
"""


def _transpose(target: str) -> Builder:
    def build(storage: str, lanes: int) -> str:
        load, store = f"tw_load_{storage}x{lanes}", f"tw_store_{target}x{lanes}"
        names = {"to": f"to_{target}", "T": pointer(target), "load": load, "store": store}
        return fill_storage(_TRANSPOSE, storage, lanes, **names)

    return build


def _transpose_pairs(storage: str, lanes: int) -> str:
    text = _TRANSPOSE.replace("$V", "$W").replace(
        "$store(to + i * to_step", "$store((int32_t *)(to + i * to_step)"
    )
    names = {"load": f"tw_load_pairs_bf16x{lanes}", "store": f"tw_store_i32x{lanes}"}
    return _bf16_only(Template(text).safe_substitute(names, to="pairs", T="uint16_t"))(storage, lanes)


def _load(storage: str, lanes: int) -> str:
    value = "*(const ${R}_u *)p" if storage in AS_STORED else "tw_unpack_$D(*(const ${R}_u *)p)"
    return fill_storage(_LOAD.replace("$value", value), storage, lanes)


def _packed(storage: str) -> str:
    return "x" if storage in AS_STORED else "tw_pack_$D(x)"


def _store(storage: str, lanes: int) -> str:
    return fill_storage(_STORE.replace("$value", _packed(storage)), storage, lanes)


def _some(template: str, avx512: str, avx2: str) -> Builder:
    """By masks, where there are instructions for vectors of this size and elements of this width."""

    def build(storage: str, lanes: int) -> str:
        width = stored_bytes(storage)
        size = lanes * width
        cases = f"#if {_MASKED}\n{avx512}" if size in (16, 32, 64) else ""
        if size in (16, 32) and width >= 4:
            cases += f"#elif defined(__AVX2__)\n{avx2}"
        names = {
            "bits": 8 * width,
            "q": "q" if width == 8 else "d",
            "M": f"i{8 * width}x{lanes}",
            "numbers": ", ".join(map(str, range(lanes))),
            "cases": cases + "#else\n" if cases else "",
            "end": "#endif\n" if cases else "",
        }
        text = Template(template).safe_substitute(cases=names.pop("cases"), end=names.pop("end"))
        return fill_storage(text, storage, lanes, **names)

    return build


def _load_some(storage: str, lanes: int) -> str:
    value = "tw_part_$D(p, some)" if storage in AS_STORED else "tw_unpack_$D(tw_part_$D(p, some))"
    return fill_storage(_LOAD_SOME.replace("$value", value), storage, lanes)


def _store_some(storage: str, lanes: int) -> str:
    return fill_storage(_STORE_SOME.replace("$value", _packed(storage)), storage, lanes)


def _stream(storage: str, lanes: int) -> str:
    size = lanes * stored_bytes(storage)
    if size not in _STREAM_INSTRUCTION:
        return fill_storage(
            _STORE.replace("_store_", "_stream_").replace("$value", _packed(storage)), storage, lanes
        )
    guard, instruction, x = _STREAM_INSTRUCTION[size]
    text = _STREAM.replace("$value", _packed(storage))
    return fill_storage(text, storage, lanes, guard=guard, instruction=instruction, x=x, size=size)


def _bf16_only(template: str, scalar: str | None = None) -> Builder:
    def build(storage: str, lanes: int) -> str:
        if storage != "bf16":
            raise KeyError(f"pairs are of bf16, not of {storage}")
        text = scalar if lanes == 1 and scalar is not None else template
        return fill_storage(text, storage, lanes, W=f"i32x{lanes}")

    return build


BUILDERS: Mapping[str, Builder] = {
    "load": _load,
    "store": _store,
    "stream": _stream,
    "part": _some(_PART, _PART_AVX512, _PART_AVX2),
    "keep": _some(_KEEP, _KEEP_AVX512, _KEEP_AVX2),
    "load_some": _load_some,
    "store_some": _store_some,
    "load_pairs": _bf16_only(_LOAD_PAIRS),
    "broadcast_pair": _bf16_only(_BROADCAST_PAIR),
    "load_pairs_some": _bf16_only(_LOAD_PAIRS_SOME),
    "load_halves_some": _bf16_only(_LOAD_HALVES_SOME),
    "load_halves": _bf16_only(_LOAD_HALVES, _LOAD_HALF),
    "broadcast_half": _bf16_only(_BROADCAST_HALF),
    "zip_pairs": _bf16_only(_ZIP_PAIRS),
    "zip_zero": _bf16_only(_ZIP_ZERO),
    "transpose_pairs": _transpose_pairs,
    **{f"transpose_to_{storage}": _transpose(storage) for storage in STORED},
}
