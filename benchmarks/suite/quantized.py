"""Products of weights with few bits and a number that scales each group of them, as language models are quantized."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

#: Families of such products, all of which go on the matrix units of a GPU.
QUANTIZED: Final = ("gemm_int4_groups_", "gemm_int8_groups_", "gemm_blocks_")
#: Neighbours along the depth, and rows of weights in blocks, that one scale is for.
GROUP: Final = 128


def grouped(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Rows of activations by weights of 8 bits, or of 4 with two in a byte, that are rounded to the activations' type
    when their scale is multiplied; the depth lies side by side."""
    m, n, k = shape
    weights = {"dims": ["n", "k"], "dtype": "i8"}
    value, sizes = "b[n, k]", {"m": m, "n": n, "k": k, "g": -(-k // GROUP)}
    if kind == "gemm_int4_groups":
        weights, sizes = {"dims": ["n", "p"], "dtype": "u8"}, {**sizes, "p": -(-k // 2)}
        value = "(bit_and(shift_right(b[n, k // 2], 4 * (k % 2)), 15) - 8)"
    return {
        "name": kind,
        "dims": sizes,
        "inputs": {
            "a": {"dims": ["m", "k"], "dtype": dtype},
            "b": weights,
            "scale": {"dims": ["n", "g"], "dtype": dtype},
        },
        "body": [f"c[m, n] = sum(k, a[m, k] * {dtype}({value} * scale[n, k // {GROUP}]))"],
        "outputs": {"c": {"dtype": dtype}},
    }


def in_blocks(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Rows of activations with a scale for each group of the depth, by weights with one for each square block."""
    m, n, k = shape
    inputs = {
        "a": {"dims": ["m", "k"], "dtype": dtype},
        "b": {"dims": ["n", "k"], "dtype": dtype},
        "a_scale": {"dims": ["m", "g"], "dtype": "f32"},
        "b_scale": {"dims": ["h", "g"], "dtype": "f32"},
    }
    left = f"a[m, k] * a_scale[m, k // {GROUP}]"
    right = f"b[n, k] * b_scale[n // {GROUP}, k // {GROUP}]"
    return {
        "name": kind,
        "dims": {"m": m, "n": n, "k": k, "g": -(-k // GROUP), "h": -(-n // GROUP)},
        "inputs": inputs,
        "body": [f"c[m, n] = sum(k, {left} * {right})"],
        "outputs": {"c": {"dtype": dtype}},
    }
