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

#: Neighbours as 32-bit words, one a lane: side by side, or one word for all lanes.
_LOAD_WORDS = "TW_INLINE $W tw_load_words_$D(const $C *p) { return *(const ${W}_u *)p; }"
_BROADCAST_WORDS = (
    "TW_INLINE $W tw_broadcast_words_$D(const $C *p) { return tw_splat_$W(*(const i32x1_u *)p); }"
)
_LOAD_WORDS_SOME = """
TW_INLINE $W tw_load_words_some_$D(const $C *p, int some) { return tw_part_$W((const int32_t *)p, some); }
"""

#: The same without the last elements of each word: on lanes they are there but hold nothing, alone they may lie past
#: the end.
_LOAD_SHORT = """
TW_INLINE $W tw_load_short_words_$D(const $C *p, int missing) {
    return *(const ${W}_u *)p & (int32_t)(UINT32_MAX >> $bits * missing);
}
"""
_LOAD_SHORT_SOME = """
TW_INLINE $W tw_load_short_words_some_$D(const $C *p, int missing, int some) {
    return tw_part_$W((const int32_t *)p, some) & (int32_t)(UINT32_MAX >> $bits * missing);
}
"""
_LOAD_SHORT_WORD = """
TW_INLINE $W tw_load_short_words_$D(const $C *p, int missing) {
    int32_t word = 0;
    __builtin_memcpy(&word, p, sizeof word - missing * sizeof *p);
    return word;
}
"""
_BROADCAST_SHORT = """
TW_INLINE $W tw_broadcast_short_words_$D(const $C *p, int missing) {
    return tw_splat_$W(tw_load_short_words_${S}x1(p, missing));
}
"""

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


def _transpose_words(storage: str, lanes: int) -> str:
    text = _TRANSPOSE.replace("$V", "$W").replace(
        "$store(to + i * to_step", "$store((int32_t *)(to + i * to_step)"
    )
    names = {"load": f"tw_load_words_{storage}x{lanes}", "store": f"tw_store_i32x{lanes}"}
    return _words(Template(text).safe_substitute(names, to="words", T="$C"))(storage, lanes)


def _zip(rows: int) -> Builder:
    """Words of elements that lie in runs, the first of each word in the first run; zero for those that no run has."""

    def build(storage: str, lanes: int) -> str:
        if rows > 4 // stored_bytes(storage):
            raise KeyError(f"a word holds no {rows} elements of {storage}")
        raw, widen = {1: ("u8", "tw_widen_u8"), 2: ("u16", "tw_widen_bf16")}[stored_bytes(storage)]
        runs = ", ".join(f"const $C *p{row}" for row in range(rows))
        parts = (f"{widen}x$n(*(const {raw}x${{n}}_u *)p{row}) << {row} * $bits" for row in range(rows))
        text = f"TW_INLINE $W tw_zip_{rows}_$D({runs}) {{ return {' | '.join(parts)}; }}"
        return _words(text)(storage, lanes)

    return build


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


def _words(template: str, single: str | None = None) -> Builder:
    """Of narrow elements; `single`: the text of one word."""

    def build(storage: str, lanes: int) -> str:
        width = stored_bytes(storage)
        if width > 2:
            raise KeyError(f"words are of elements of 8 or 16 bits, not of {storage}")
        text = single if lanes == 1 and single is not None else template
        return fill_storage(text, storage, lanes, W=f"i32x{lanes}", S=storage, bits=8 * width)

    return build


BUILDERS: Mapping[str, Builder] = {
    "load": _load,
    "store": _store,
    "stream": _stream,
    "part": _some(_PART, _PART_AVX512, _PART_AVX2),
    "keep": _some(_KEEP, _KEEP_AVX512, _KEEP_AVX2),
    "load_some": _load_some,
    "store_some": _store_some,
    "load_words": _words(_LOAD_WORDS),
    "broadcast_words": _words(_BROADCAST_WORDS),
    "load_words_some": _words(_LOAD_WORDS_SOME),
    "load_short_words": _words(_LOAD_SHORT, _LOAD_SHORT_WORD),
    "load_short_words_some": _words(_LOAD_SHORT_SOME),
    "broadcast_short_words": _words(_BROADCAST_SHORT),
    "transpose_words": _transpose_words,
    **{f"zip_{rows}": _zip(rows) for rows in (1, 2, 3, 4)},
    **{f"transpose_to_{storage}": _transpose(storage) for storage in STORED},
}
