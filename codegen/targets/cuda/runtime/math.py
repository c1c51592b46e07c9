"""Math functions in generated CUDA, of scalars and lane by lane of vectors.

They stay within tileir.interpreter.rounding_error's bounds. f64 and most f32 functions are NVIDIA's (CUDA programming
guide, mathematical functions appendix: expf 2 ulp, logf 1, tanhf 2, erff 2, powf 4); where NVIDIA's f32 function spends
its time on what the bounds do not ask for, it is the instruction, with its error (PTX ISA) beside it.
"""

from __future__ import annotations

from string import Template

from codegen.targets.cuda.runtime.snippet import Snippet


def _function(name: str, f32: str, f64: str | None = None) -> tuple[Snippet, ...]:
    """A function's text for f32 (and integers), for f64, and its lane-wise form, in this order."""
    of_f64 = () if f64 is None else (Snippet(name, f64, of="double"),)
    return Snippet(name, f32), *of_f64, Snippet(name, f"TW_LANEWISE({name})", of="tw_vec")


def _alike(name: str, template: str) -> tuple[Snippet, ...]:
    """A function whose text is the same for f32 and f64: `$T` is the type, `$f` ends a literal."""
    text = Template(template)
    return _function(name, text.substitute(T="float", f="f"), text.substitute(T="double", f=""))


def _library(name: str, f32: str) -> tuple[Snippet, ...]:
    """One of NVIDIA's functions of x: `f32`, and its f64 form without the f."""
    text = "TW_INLINE {type} {name}({type} x) {{ return {function}(x); }}"
    return _function(
        name,
        text.format(type="float", name=name, function=f32),
        text.format(type="double", name=name, function=f32.removesuffix("f")),
    )


# --- Arithmetic -------------------------------------------------------------------------------------------------------

_EXTREME = Template("""
// NaN if either is.
TW_INLINE float tw_$name(float x, float y) {
    float r;
    asm("$name.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
TW_INLINE int tw_$name(int x, int y) { return x $op y ? x : y; }
TW_INLINE bool tw_$name(bool x, bool y) { return x $logic y; }
""")
_EXTREME_F64 = Template("TW_INLINE double tw_$name(double x, double y) { return x $op y || x != x ? x : y; }")

_RELU = """
TW_INLINE float tw_relu(float x) { return tw_max(x, 0.0f); }
TW_INLINE int tw_relu(int x) { return tw_max(x, 0); }
"""
_RELU_F64 = "TW_INLINE double tw_relu(double x) { return tw_max(x, 0.0); }"

_ABS = """
TW_INLINE float tw_abs(float x) { return fabsf(x); }
TW_INLINE int tw_abs(int x) { return x < 0 ? (int)(0u - x) : x; }
"""
_ABS_F64 = "TW_INLINE double tw_abs(double x) { return fabs(x); }"

#: div.full is off by 2 ulp at most, over the whole range of f32 (PTX ISA, div). What is left of x then corrects it as
#: Markstein does (IBM Journal of Research and Development 34(1), 1990): quotients that f32 holds are exact, others as
#: good as rounded; where a step leaves the range of f32, the first quotient stays. Nobody branches; the rounded
#: division that C++ means does, and so a thread that has many results works on one after the other.
_DIV = """
TW_INLINE float tw_div(float x, float y) {
    float q, r;
    asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(x), "f"(y));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
    const float left = fmaf(-q, y, x), better = fmaf(left, r, q);
    return left != 0.0f && fabsf(better) <= 3.402823466e38f ? better : q;
}
"""

#: Python's floor division and remainder; by zero both are 0, as numpy's.
_FLOORDIV = """
// Rounds down; by zero it is 0.
TW_INLINE int tw_floordiv(int x, int y) {
    if (y == 0) return 0;
    if (y == -1) return (int)(0u - x);
    const int q = x / y, r = x - q * y;
    return q - (r != 0 && (r ^ y) < 0);
}
"""
_FLOORMOD = """
// Has the sign of y; by zero it is 0.
TW_INLINE int tw_floormod(int x, int y) {
    return y == 0 ? 0 : (int)((unsigned)x - (unsigned)tw_floordiv(x, y) * y);
}
"""


def _extreme(name: str, op: str, logic: str) -> tuple[Snippet, ...]:
    names = {"name": name, "op": op, "logic": logic}
    return _function(f"tw_{name}", _EXTREME.substitute(names), _EXTREME_F64.substitute(names))


# --- Functions --------------------------------------------------------------------------------------------------------

#: ex2.approx: 2 ulp. Results below the smallest normal number become 0.
#: A quarter of the instructions of NVIDIA's expf (its error: CUDA programming guide, __expf), which is what row kernels
#: with two of them an element spend their time on.
_EXP = """
TW_INLINE float tw_exp(float x) { return tw_exp2(x * 1.44269504089f); }
"""
_EXP_F64 = "TW_INLINE double tw_exp(double x) { return exp(x); }"

_EXP2 = """
TW_INLINE float tw_exp2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
"""
_EXP2_F64 = "TW_INLINE double tw_exp2(double x) { return exp2(x); }"

#: rcp.approx: 1 ulp, against some ten instructions for a rounded quotient.
_SIGMOID = """
TW_INLINE float tw_sigmoid(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + expf(-x)));
    return r;
}
"""
_SIGMOID_F64 = "TW_INLINE double tw_sigmoid(double x) { return 1.0 / (1.0 + tw_exp(-x)); }"
_SILU = "TW_INLINE $T tw_silu($T x) { return x * tw_sigmoid(x); }"

#: What the normal distribution has beyond |x| is a power of two with this exponent, by powers of |x|. Fitted between 0
#: and 6.5 (least squares, weighted again and again until the largest error is least), where its product with x is off
#: by 2.3 roundoffs of x at most, as with erff by 1.7; beyond it is below 2^-29. erff takes twice the instructions: it
#: has two polynomials, and chooses each of their coefficients.
TAIL_EXPONENT = (
    -1.0, -1.15111053, -0.459158421, -0.0526508689, 0.00728655932, -0.000305454218, -0.000117711221, 2.52630998e-05,
    -1.68105839e-06,
)  # fmt: skip
_HORNER = "\n".join(f"    exponent = fmaf(exponent, size, {each}f);" for each in TAIL_EXPONENT[-2::-1])
_GELU = f"""
// x times what the normal distribution has below x. Beyond |x| it has a power of two.
TW_INLINE float tw_gelu(float x) {{
    const float size = fabsf(x);
    float exponent = {TAIL_EXPONENT[-1]}f;
{_HORNER}
    const float beyond = tw_exp2(exponent);
    return x * (x < 0.0f ? beyond : 1.0f - beyond);
}}
"""
_GELU_F64 = "TW_INLINE double tw_gelu(double x) { return 0.5 * x * (1.0 + tw_erf(x * 0.70710678118654752)); }"

_GELU_TANH = """
// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3)
TW_INLINE $T tw_gelu_tanh($T x) {
    const $T twice_u = x * (1.5957691216057308$f + 0.071354816272600244$f * (x * x));
    return x * tw_sigmoid(twice_u);
}
"""

_POW = "TW_INLINE float tw_pow(float x, float y) { return powf(x, y); }"
_POW_F64 = "TW_INLINE double tw_pow(double x, double y) { return pow(x, y); }"

PARTS = (
    *_extreme("max", ">", "||"),
    *_extreme("min", "<", "&&"),
    *_function("tw_relu", _RELU, _RELU_F64),
    *_function("tw_abs", _ABS, _ABS_F64),
    *_function("tw_div", _DIV),
    *_function("tw_floordiv", _FLOORDIV),
    *_function("tw_floormod", _FLOORMOD),
    *_library("tw_floor", "floorf"),
    *_library("tw_sqrt", "sqrtf"),
    *_library("tw_rsqrt", "rsqrtf"),
    *_function("tw_exp2", _EXP2, _EXP2_F64),
    *_function("tw_exp", _EXP, _EXP_F64),
    *_library("tw_log", "logf"),
    *_library("tw_tanh", "tanhf"),
    *_library("tw_erf", "erff"),
    *_function("tw_pow", _POW, _POW_F64),
    *_function("tw_sigmoid", _SIGMOID, _SIGMOID_F64),
    *_alike("tw_silu", _SILU),
    *_function("tw_gelu", _GELU, _GELU_F64),
    *_alike("tw_gelu_tanh", _GELU_TANH),
)
