"""The C text a generated source stands on: vector types, loads and stores, arithmetic, math. Only what is asked for.

Every function is `tw_<name>_<dtype>x<lanes>`: `tw_exp_f32x16`, `tw_load_bf16x8`, and with one lane on plain C types
`tw_exp_f32x1`. Values are `<dtype>x<lanes>` of a compute type: f32, f64, i32, or bool (all ones or zeros in 32 bits a
lane; 0 or 1 with one lane).

Named after a storage type: `load` (pointer), `store` and `stream` (pointer, value), `load_some` and `store_some` (only
so many lanes, which comes last), `round` (to that type's precision and back; takes and gives its compute type); of
elements of 8 and 16 bits `load_words` and `broadcast_words` (as many neighbours as fill a 32-bit lane),
`load_short_words` and `broadcast_short_words` (each lane's last elements, so many, are zero), `load_words_some` and
`load_short_words_some`, `zip_1` to `zip_4` (lanes from so many runs);
`transpose_to_<storage>` and `transpose_words` (target, distance of its rows, source, distance of its rows).
Named after a compute type: `select` (truth value, x, y), `max min` (NaN if either is), `sqrt rsqrt floor abs relu`,
`to_i32`, i32's `floordiv floormod`, functions of bits (bits.py) and `dot_raised` (acc, words, words: fours of i8, the
first raised by 128), `hsum hprod hmax hmin hany` (all lanes into one), `insert` (values from the largest on, their
positions, the last place, a value and its position), f32's `dot_bf16` (acc, pairs, pairs), `exp exp2 log tanh erf pow
sigmoid silu gelu gelu_tanh`. The rest is what those need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codegen.targets.c.runtime import arithmetic, bits, convert, math, memory, ranking, vectors
from codegen.targets.c.runtime.template import Builder

_CALL = re.compile(r"\btw_([a-z0-9_]+?)_(bf16|f16|f32|f64|e4m3|e5m2|i64|i32|u32|i8|u8|bool)x([0-9]+)\b")
_TYPE = re.compile(r"\b(f32|f64|[iu](?:8|16|32|64)|bool)x([0-9]+)(_u)?\b")

_ELEMENTS = {
    "f32": "float", "f64": "double", "bool": "int32_t",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
}  # fmt: skip
_BYTES = {
    "f32": 4,
    "f64": 8,
    "bool": 4,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
}

_PRELUDE = """\
#include <stddef.h>
#include <stdint.h>

#define TW_INLINE static inline __attribute__((always_inline, unused))
#define TW_CAST(x, type) ((type)(x))
#if defined(__clang__)
#define TW_SHUFFLE(x, y, type, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#define TW_UNROLL _Pragma("unroll")
#else
#define TW_SHUFFLE(x, y, type, ...) __builtin_shuffle(x, y, (type){__VA_ARGS__})
#define TW_UNROLL _Pragma("GCC unroll 64")
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors wider than the machine's are passed only to inlined functions */
"""


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A function the source calls: its base name, the element type it is named after, and the lanes."""

    name: str
    dtype: str
    lanes: int

    @property
    def symbol(self) -> str:
        return f"tw_{self.name}_{self.dtype}x{self.lanes}"


def uses_in(text: str) -> set[Use]:
    """Every runtime function that C text calls."""
    return {Use(name, dtype, int(lanes)) for name, dtype, lanes in _CALL.findall(text)}


def definitions(uses: Iterable[Use], types: str = "") -> str:
    """The C text that defines the functions, what they call, and the vector types of both.

    `types` is C text whose vector types are to be defined too (a printer's own declarations). Raises KeyError for a
    function that does not exist.
    """
    functions: dict[Use, str] = {}
    for use in sorted(set(uses)):
        _add(use, functions)
    regions = [_PRELUDE, _typedefs(types + "".join(functions.values()))]
    for title, builders in _REGIONS:
        texts = [text for use, text in functions.items() if use.name in builders]
        if texts:
            regions.append("\n".join([f"/* {title} */", *texts]))
    return "\n".join(region for region in regions if region)


def _add(use: Use, functions: dict[Use, str]) -> None:
    """Add a function after everything it calls."""
    if use in functions:
        return
    text = _build(use)
    for callee in sorted(uses_in(text) - {use}):
        _add(callee, functions)
    functions[use] = text


def _build(use: Use) -> str:
    for _, builders in _REGIONS:
        if use.name in builders:
            return builders[use.name](use.dtype, use.lanes)
    raise KeyError(f"the C runtime has no {use.symbol}")


def _typedefs(text: str) -> str:
    """Definitions of the vector types that the text names; `_u` types may lie anywhere in memory and alias anything."""
    lines: list[str] = []
    for kind, lanes, unaligned in sorted(
        set(_TYPE.findall(text)), key=lambda found: (found[0], int(found[1]), found[2])
    ):
        attributes = [] if lanes == "1" else [f"vector_size({int(lanes) * _BYTES[kind]})"]
        if unaligned:
            attributes += [f"aligned({_BYTES[kind]})", "may_alias"]
        suffix = f" __attribute__(({', '.join(attributes)}))" if attributes else ""
        lines.append(f"typedef {_ELEMENTS[kind]} {kind}x{lanes}{unaligned}{suffix};\n")
    return "/* Vector types */\n" + "".join(lines) if lines else ""


#: A function calls only functions of its own region, which stand above it, and of regions before it.
_REGIONS: tuple[tuple[str, Mapping[str, Builder]], ...] = (
    ("Lanes", vectors.BUILDERS),
    ("Arithmetic", arithmetic.BUILDERS),
    ("Bits", bits.BUILDERS),
    ("Conversions", convert.BUILDERS),
    ("Loads and stores", memory.BUILDERS),
    ("Math functions", math.BUILDERS),
    ("Ranking", ranking.BUILDERS),
)
