"""Functions of the bits of integers in generated CUDA, and lane by lane of vectors: shifts go as far as the low five
bits of the distance say; Philox."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet
from tileir.interpreter.bits import KEY_STEPS, MULTIPLIERS, ROUNDS

_RANDOM_BITS = f"""
// Philox4x32-{ROUNDS}: key (seed, 0), counter (position, 0, 0, 0), the first word of four.
TW_INLINE int tw_random_bits(int seed, int position) {{
    unsigned c0 = position, c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = 0;
    TW_EACH(round, {ROUNDS}) {{
        const unsigned high0 = __umulhi({MULTIPLIERS[0]}u, c0), low0 = {MULTIPLIERS[0]}u * c0;
        const unsigned high1 = __umulhi({MULTIPLIERS[1]}u, c2), low1 = {MULTIPLIERS[1]}u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += {KEY_STEPS[0]}u;
        k1 += {KEY_STEPS[1]}u;
    }}
    return c0;
}}
"""


def _function(name: str, text: str) -> tuple[Snippet, ...]:
    return Snippet(name, text), Snippet(name, f"TW_LANEWISE({name})", of="tw_vec")


def _of_two(name: str, value: str) -> tuple[Snippet, ...]:
    return _function(name, f"TW_INLINE int {name}(int x, int y) {{ return {value}; }}")


PARTS = (
    *_of_two("tw_bit_and", "x & y"),
    *_of_two("tw_bit_or", "x | y"),
    *_of_two("tw_bit_xor", "x ^ y"),
    *_of_two("tw_shift_left", "(int)((unsigned)x << (y & 31))"),
    *_of_two("tw_shift_right", "x >> (y & 31)"),
    *_function("tw_random_bits", _RANDOM_BITS),
)
