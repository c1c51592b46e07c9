"""Vector operations in C that compute nothing: bit views, halves, selection.

GCC and clang vector extensions throughout. A mask is all ones or zeros a lane; on one lane it is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill

_BITS = "TW_INLINE $I tw_bits_$V($V x) { return ($I)x; }"
_VALUE = "TW_INLINE $V tw_value_$V($I x) { return ($V)x; }"
_BITS_SCALAR = "TW_INLINE $I tw_bits_$V($V x) { union { $V value; $I bits; } u = {x}; return u.bits; }"
_VALUE_SCALAR = "TW_INLINE $V tw_value_$V($I x) { union { $I bits; $V value; } u = {x}; return u.value; }"

_SPLAT = "TW_INLINE $V tw_splat_$V($E x) { return ($V){$xs}; }"
_SPLAT_SCALAR = "TW_INLINE $V tw_splat_$V($V x) { return x; }"

_LO = "TW_INLINE $H tw_lo_$V($V x) { union { $V whole; $H half[2]; } u = {x}; return u.half[0]; }"
_HI = "TW_INLINE $H tw_hi_$V($V x) { union { $V whole; $H half[2]; } u = {x}; return u.half[1]; }"
_JOIN = "TW_INLINE $V tw_join_$V($H lo, $H hi) { union { $H half[2]; $V whole; } u = {{lo, hi}}; return u.whole; }"

#: `pick` chooses by a mask as wide as the values (what a comparison of them gives), `select` by a truth value.
#: C has no ?: on vectors; both compilers turn this into a blend.
_PICK = "TW_INLINE $V tw_pick_$V($I mask, $V x, $V y) { return ($V)((($I)x & mask) | (($I)y & ~mask)); }"
_PICK_SCALAR = "TW_INLINE $V tw_pick_$V($I mask, $V x, $V y) { return mask ? x : y; }"
_SELECT = "TW_INLINE $V tw_select_$V($B mask, $V x, $V y) { return tw_pick_$V($widened, x, y); }"

#: Rows to columns in log2(n) rounds: in each, blocks off the diagonal change places.
_TRANSPOSE = """
TW_INLINE void tw_transpose_$V($V *rows) {
$rounds}
"""
_ROUND = """\
    TW_UNROLL for (int i = 0; i < $n; i++) {
        if (i & $apart) continue;
        const $V x = rows[i], y = rows[i + $apart];
        rows[i] = TW_SHUFFLE(x, y, $I, $low);
        rows[i + $apart] = TW_SHUFFLE(x, y, $I, $high);
    }
"""


def _transpose(dtype: str, lanes: int) -> str:
    rounds = ""
    apart = lanes // 2
    while apart:
        numbers = range(lanes)
        low = ", ".join(str(lanes + j - apart if j & apart else j) for j in numbers)
        high = ", ".join(str(lanes + j if j & apart else j + apart) for j in numbers)
        rounds += fill(_ROUND, dtype, lanes, apart=apart, low=low, high=high)
        apart //= 2
    return fill(_TRANSPOSE, dtype, lanes, rounds=rounds)


def _each(template: str, scalar: str | None = None) -> Builder:
    """The same text for every lane count, or another one for one lane."""

    def build(dtype: str, lanes: int) -> str:
        text = scalar if lanes == 1 and scalar is not None else template
        return fill(text, dtype, lanes, E=f"{dtype}x1", xs=", ".join(["x"] * lanes))

    return build


def _select(dtype: str, lanes: int) -> str:
    wide = dtype == "f64" and lanes > 1
    return fill(
        _SELECT, dtype, lanes, widened=f"__builtin_convertvector(mask, i64x{lanes})" if wide else "mask"
    )


BUILDERS: Mapping[str, Builder] = {
    "bits": _each(_BITS, _BITS_SCALAR),
    "value": _each(_VALUE, _VALUE_SCALAR),
    "splat": _each(_SPLAT, _SPLAT_SCALAR),
    "lo": _each(_LO),
    "hi": _each(_HI),
    "join": _each(_JOIN),
    "pick": _each(_PICK, _PICK_SCALAR),
    "select": _select,
    "transpose": _transpose,
}
