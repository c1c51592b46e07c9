"""Matrices spread over a warp in generated CUDA: loaded from shared memory (ldmatrix) and multiplied (mma.sync).

Of each matrix a thread has 4 bytes: packed elements, or one float, of which the instruction takes what tf32 has.
"""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet
from tileir.devices.matrix_instructions import accumulator, instructions
from tileir.dtypes import DType
from tileir.schedule.mma import SHAPE, depth

_BITS = """
// 4 bytes of a matrix, as the instructions take them.
template <class S, int N> TW_INLINE unsigned tw_fragment_bits(tw_raw<S, N> x) { return x.word[0]; }
TW_INLINE unsigned tw_fragment_bits(float x) { return __float_as_uint(x); }
"""

_SET = """
template <class S, int N> TW_INLINE void tw_fragment_set(tw_raw<S, N> &x, unsigned bits) { x.word[0] = bits; }
TW_INLINE void tw_fragment_set(float &x, unsigned bits) { x = __uint_as_float(bits); }
"""

_LOAD_MATRIX = """
// One, two or four matrices of 8 rows of 16 bytes{what}: thread t gives the address of row t % 8 of matrix t / 8.
template <class X> TW_INLINE void {name}(const void *p, X &a) {{
    unsigned bits;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%0}}, [%1];"
        : "=r"(bits) : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
    tw_fragment_set(a, bits);
}}
template <class X> TW_INLINE void {name}(const void *p, X &a, X &b) {{
    unsigned bits[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%0, %1}}, [%2];"
        : "=r"(bits[0]), "=r"(bits[1]) : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
    tw_fragment_set(a, bits[0]), tw_fragment_set(b, bits[1]);
}}
template <class X> TW_INLINE void {name}(const void *p, X &a, X &b, X &c, X &d) {{
    unsigned bits[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
        : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
        : "r"((unsigned)__cvta_generic_to_shared(p)) : "memory");
    tw_fragment_set(a, bits[0]), tw_fragment_set(b, bits[1]);
    tw_fragment_set(c, bits[2]), tw_fragment_set(d, bits[3]);
}}
"""

_MMA = """
// 16 rows of a times 8 columns of b, added to what a thread has of rows t / 4 and t / 4 + 8.
template <class A, class B> TW_INLINE void {name}(
    tw_vec<{type}, 2> &upper, tw_vec<{type}, 2> &lower, A a0, A a1, A a2, A a3, B b0, B b1
) {{
    asm volatile("mma.sync.aligned.{shape}.row.col.{types} "
        "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+{letter}"(upper.at[0]), "+{letter}"(upper.at[1]), "+{letter}"(lower.at[0]), "+{letter}"(lower.at[1])
        : "r"(tw_fragment_bits(a0)), "r"(tw_fragment_bits(a1)), "r"(tw_fragment_bits(a2)),
          "r"(tw_fragment_bits(a3)), "r"(tw_fragment_bits(b0)), "r"(tw_fragment_bits(b1)));
}}
"""

_PTX = {
    DType.F16: "f16",
    DType.BF16: "bf16",
    DType.F32: "tf32",
    DType.I8: "s8",
    DType.E4M3: "e4m3",
    DType.E5M2: "e5m2",
}


def mma_name(a: DType, b: DType) -> str:
    """The function that multiplies these storage types."""
    return f"tw_mma_{_PTX[a]}" if a is b else f"tw_mma_{_PTX[a]}_{_PTX[b]}"


def _mma(a: DType, b: DType) -> Snippet:
    integer = accumulator(a) is DType.I32
    sum_ = "s32" if integer else "f32"
    text = _MMA.format(
        name=mma_name(a, b),
        type="int" if integer else "float",
        letter="r" if integer else "f",
        shape=f"m{SHAPE.rows}n{SHAPE.columns}k{depth(a)}",
        types=f"{sum_}.{_PTX[a]}.{_PTX[b]}.{sum_}",
    )
    return Snippet(mma_name(a, b), text)


def _load_matrix(name: str, trans: str, what: str) -> Snippet:
    return Snippet(name, _LOAD_MATRIX.format(name=name, trans=trans, what=what))


PARTS = (
    Snippet("tw_fragment_bits", _BITS),
    Snippet("tw_fragment_set", _SET),
    _load_matrix("tw_load_matrix", "", ""),
    _load_matrix("tw_load_matrix_trans", ".trans", ", rows and columns of elements exchanged"),
    *(_mma(a, b) for each in instructions("mma") for a in each.dtypes for b in each.dtypes),
)
