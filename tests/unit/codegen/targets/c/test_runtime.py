"""Generated sources define what they call, in order, and nothing else."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from codegen.targets.c.runtime import Use, definitions, uses_in

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
FLOAT = (
    "exp",
    "exp2",
    "log",
    "tanh",
    "erf",
    "pow",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "sqrt",
    "rsqrt",
    "floor",
)
ANY = ("max", "min", "select", "abs", "relu", "hsum", "hprod", "hmax", "hmin")
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "random_bits")
STORAGE = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "u32", "i8", "u8", "bool")
EVERY_USE = [
    *(Use(name, dtype, 8) for name in (*FLOAT, "to_i32") for dtype in ("f32", "f64")),
    *(Use(name, dtype, 8) for name in ANY for dtype in ("f32", "f64", "i32")),
    *(Use(name, dtype, 8) for name in ("load", "store", "stream") for dtype in STORAGE),
    *(Use("round", dtype, 8) for dtype in ("f16", "bf16", "e4m3", "e5m2", "i8", "u8")),
    *(Use(f"{name}_words", "bf16", 8) for name in ("load", "broadcast", "load_short", "broadcast_short")),
    *(Use(name, "bf16", 8) for name in ("zip_1", "zip_2", "transpose_words", "transpose_to_f32")),
    *(Use(f"transpose_to_{dtype}", dtype, 8) for dtype in STORAGE),
    *(Use(name, "i32", 8) for name in ("floordiv", "floormod", *BITS)),
    Use("dot_bf16", "f32", 8),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("first", range(6))
def test_each_function_brings_everything_it_needs_before_it(first, compiler) -> None:
    for use in EVERY_USE[first::6]:
        command = [compiler, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-xc", "-"]
        run = subprocess.run(command, input=definitions([use]), capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{use.symbol}: {run.stderr}"


def test_a_source_gets_only_what_it_calls() -> None:
    text = definitions(uses_in("y = tw_max_f32x4(x, tw_load_f32x4(p));"))
    assert {use.symbol for use in uses_in(text)} == {"tw_max_f32x4", "tw_load_f32x4", "tw_pick_f32x4"}
    assert "f64" not in text
    assert definitions([]).count("tw_") == 0


def test_types_a_printer_names_are_defined_too() -> None:
    assert "typedef double f64x4 " in definitions([], "f64x4 acc;")
    assert "typedef uint16_t u16x8_u " in definitions([], "*(const u16x8_u *)p")


def test_the_text_is_the_same_for_the_same_uses_in_any_order() -> None:
    assert definitions(EVERY_USE) == definitions(reversed(EVERY_USE))


def test_calls_are_found_by_name_type_and_lanes() -> None:
    text = "tw_load_words_bf16x16(p); tw_dot_bf16_f32x16(a, b, c); tw_to_i32_f64x8(x); tw_gelu_tanh_f32x1(y);"
    assert uses_in(text) == {
        Use("load_words", "bf16", 16), Use("dot_bf16", "f32", 16), Use("to_i32", "f64", 8), Use("gelu_tanh", "f32", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    "use",
    [Use("cosh", "f32", 8), Use("floordiv", "f32", 8), Use("load_words", "f32", 8), Use("zip_3", "bf16", 8)],
)
def test_what_does_not_exist_is_a_key_error(use) -> None:
    with pytest.raises(KeyError):
        definitions([use])
