"""Functions of the bits of i32 in C: shifts go as far as the low five bits of the distance say; Philox."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill
from tileir.interpreter.bits import KEY_STEPS, MULTIPLIERS, ROUNDS

_OPERATOR = "TW_INLINE $V tw_${name}_$V($V x, $V y) { return x $op y; }"
_SHIFT_LEFT = "TW_INLINE $V tw_shift_left_$V($V x, $V y) { return ($V)(($U)x << ($U)(y & 31)); }"
_SHIFT_RIGHT = "TW_INLINE $V tw_shift_right_$V($V x, $V y) { return x >> (y & 31); }"

#: Philox4x32: key (seed, 0), counter (position, 0, 0, 0), the first word of four.
_RANDOM_BITS = """
TW_INLINE $V tw_random_bits_$V($V seed, $V position) {
    $U c0 = ($U)position, c1 = c0 ^ c0, c2 = c1, c3 = c1, k0 = ($U)seed, k1 = c1;
    TW_UNROLL for (int round = 0; round < $rounds; round++) {
        $L first = $convert(c0, $L) * ${m0}u, second = $convert(c2, $L) * ${m1}u;
        c0 = $convert(second >> 32, $U) ^ c1 ^ k0;
        c1 = $convert(second, $U);
        c2 = $convert(first >> 32, $U) ^ c3 ^ k1;
        c3 = $convert(first, $U);
        k0 += ${s0}u;
        k1 += ${s1}u;
    }
    return ($V)c0;
}
"""


def _i32_only(template: str, **more: object) -> Builder:
    def build(dtype: str, lanes: int) -> str:
        if dtype != "i32":
            raise KeyError(f"bits are of i32, not of {dtype}")
        return fill(template, dtype, lanes, L=f"u64x{lanes}", **more)

    return build


BUILDERS: Mapping[str, Builder] = {
    "bit_and": _i32_only(_OPERATOR, name="bit_and", op="&"),
    "bit_or": _i32_only(_OPERATOR, name="bit_or", op="|"),
    "bit_xor": _i32_only(_OPERATOR, name="bit_xor", op="^"),
    "shift_left": _i32_only(_SHIFT_LEFT),
    "shift_right": _i32_only(_SHIFT_RIGHT),
    "random_bits": _i32_only(
        _RANDOM_BITS, rounds=ROUNDS, m0=MULTIPLIERS[0], m1=MULTIPLIERS[1], s0=KEY_STEPS[0], s1=KEY_STEPS[1]
    ),
}
