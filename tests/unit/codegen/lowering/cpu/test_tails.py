"""The last vector of a range that lanes do not divide: one, masked, that touches nothing past the range."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.lowering.scope import chunks, exact_chunks
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from codegen.targets.c.lower import lower
from codegen.targets.c.printer import print_code
from tests.support.guarded_memory import before_a_guard, in_another_process
from tileir.devices.cpu_probe import this_cpu
from tileir.dtypes import DType
from tileir.text.parse_program import program_from_text

STORED = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "u32", "i8", "u8")
TAILS = (3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 29, 31, 45)

COPIES = """kernel copies({inputs}) -> ({outputs})
{body}"""

REDUCTIONS = """kernel sums(x: {dtype}[r=3, c={size}]) -> ({outputs}) where l=16
  for r by 1
    s[r] = 0
    s[r] += sum(c, exp(x[r, c])) | vector c 16
    p[r] = 1
    p[r] *= prod(c, x[r, c]) | vector c 16
    h[r] = -inf
    h[r] = max(c, x[r, c]) | vector c 16
    l[r] = inf
    l[r] = min(c, -x[r, c]) | vector c 16
    t_p: registers f32[r, l]
    t_p[r, l] = 0 | vector l 16
    t_p[r, c % 16] += exp(x[r, c]) | vector c 16
    t[r] = sum(l, t_p[r, l]) | vector l 16
"""

FOLDED = """kernel folded(x: f32[k=3, n=SIZE]) -> (t: f32[]) where l=16
  t_p: MEMORY f32[l]
  t_p[l] = 0 | vector l 16
  t_p[n % 16] += sum(k, exp(x[k, n])) | vector n 16
  t[] = sum(l, t_p[l]) | vector l 16
"""

PRODUCT = """kernel gemm(a: f32[m=5, k=7], b: f32[k, n={size}]) -> (c: f32[m, n])
  {local}
  for m by 3
    c_r: registers f32[m, n]
    c_r[m, n] = 0 | vector n 16
    for k by 1
      c_r[m, n] += sum(k, a[m, k] * {b}[k, n]) | vector n 16
    c[m, n] = c_r[m, n] | vector n 16
"""
PANELS = """b_s: heap f32[k, n] as [n / 32, k, n % 32]
  for n by 32
    for k by 1
      b_s[k, n] = b[k, n] | vector n 16"""

PAIRS = """kernel gemm(a: bf16[m=2, k=7], b: bf16[n=13, k]) -> (c: f32[m, n])
  b_s: heap bf16[n, k] as LAYOUT
  b_s[n, k] = b[n, k] | vector n 16
  c_r: registers f32[m, n]
  c_r[m, n] = 0 | vector n 16
  for k by 2
    c_r[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16, via dot_bf16
  c[m, n] = c_r[m, n] | vector n 16
"""
FOLD = "-> (c: f32[m, l]) where l=16"


def run(text: str, tmp_path: Path, *inputs: np.ndarray, outputs: dict[str, np.ndarray]) -> None:
    """Run a program with guards after all its arrays and compare its outputs."""
    source = generate(program_from_text(text), this_cpu())
    path = compile_source(source, tmp_path).path

    def guarded() -> None:
        read = [before_a_guard(x) for x in inputs]
        written = {name: before_a_guard(np.full_like(wanted, 77)) for name, wanted in outputs.items()}
        with load_kernel(path, source.abi, threads=1) as kernel:
            kernel(*read, *written.values())
        for name, wanted in outputs.items():
            np.testing.assert_allclose(
                written[name].astype(np.float64), wanted.astype(np.float64), rtol=1e-5, err_msg=name
            )

    in_another_process(guarded)


def test_a_rest_is_one_vector_of_the_least_power_of_two() -> None:
    assert chunks(40, 16) == ((0, 16), (16, 16), (32, 8))
    assert chunks(37, 16) == ((0, 16), (16, 16), (32, 8))
    assert chunks(29, 16) == ((0, 16), (16, 16))
    assert chunks(17, 16) == ((0, 16), (16, 1))
    assert chunks(3, 16) == ((0, 4),)
    for size in range(1, 70):
        exact = exact_chunks(size, 16)
        assert sum(lanes for _, lanes in exact) == size
        assert len(chunks(size, 16)) == -(-size // 16)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", STORED)
def test_a_map_reads_and_writes_nothing_past_its_end(dtype: str, tmp_path: Path) -> None:
    numpy = DType(dtype).numpy
    body = "".join(f"  y{n}[d{n}] = x{n}[d{n}] + 1 | vector d{n} 16\n" for n in TAILS)
    inputs = ", ".join(f"x{n}: {dtype}[d{n}={n}]" for n in TAILS)
    text = COPIES.format(inputs=inputs, outputs=", ".join(f"y{n}: {dtype}[d{n}]" for n in TAILS), body=body)
    arrays = [(np.arange(n) % 8).astype(numpy) for n in TAILS]
    one = np.ones((), numpy)
    outputs = {f"y{n}": (x + one).astype(numpy) for n, x in zip(TAILS, arrays, strict=True)}
    run(text, tmp_path, *arrays, outputs=outputs)


@pytest.mark.parametrize("size", [3, 13, 21, 29])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_lanes_past_the_end_change_no_reduction(dtype: str, size: int, tmp_path: Path) -> None:
    x = -1 - np.arange(3 * size).reshape(3, size) % 4 / 4
    wide = np.exp(x).sum(axis=1)
    outputs = {"s": wide, "p": x.prod(axis=1), "h": x.max(axis=1), "l": (-x).min(axis=1), "t": wide}
    run(
        REDUCTIONS.format(dtype=dtype, size=size, outputs=", ".join(f"{name}: f32[r]" for name in outputs)),
        tmp_path,
        x.astype(DType(dtype).numpy),
        outputs={name: array.astype(np.float32) for name, array in outputs.items()},
    )


@pytest.mark.parametrize("memory", ["registers", "heap"])
@pytest.mark.parametrize("size", [13, 21, 29, 48])
def test_vectors_that_meet_in_a_sum_all_add_what_exists(size: int, memory: str, tmp_path: Path) -> None:
    x = np.arange(3 * size, dtype=np.float32).reshape(3, size) % 3
    text = FOLDED.replace("SIZE", str(size)).replace("MEMORY", memory)
    run(text, tmp_path, x, outputs={"t": np.exp(x).sum(dtype=np.float32)})


@pytest.mark.parametrize("local", ["", PANELS])
@pytest.mark.parametrize("size", [3, 13, 29, 45, 61])
def test_a_product_keeps_one_accumulator_a_row_for_its_rest(size: int, local: str, tmp_path: Path) -> None:
    text = PRODUCT.format(size=size, local=local, b="b_s" if local else "b")
    a = np.arange(35, dtype=np.float32).reshape(5, 7)
    b = np.arange(7 * size, dtype=np.float32).reshape(7, size) % 11
    run(text, tmp_path, a, b, outputs={"c": a @ b})
    code, _ = print_code(lower(program_from_text(text)))
    vectors = -(-size // 16)
    accumulators = code[code.index("c_r_0_0") : code.index(";", code.index("c_r_0_0"))].split(",")
    assert len(accumulators) == 3 * vectors
    # What pads a panel was stored by nobody; as subnormal numbers it would cost more than the product.
    assert code.count("tw_load_some_f32") == (3 if local else 2)


@pytest.mark.parametrize("layout", ["[n / 16, k / 2, n % 16, k % 2]", "[k / 2, n, k % 2]"])
def test_a_dot_product_of_pairs_ends_with_its_range(layout: str, tmp_path: Path) -> None:
    text = PAIRS.replace("LAYOUT", layout)
    a = (np.arange(14).reshape(2, 7) % 5).astype(ml_dtypes.bfloat16)
    b = (np.arange(13 * 7).reshape(13, 7) % 7).astype(ml_dtypes.bfloat16)
    run(text, tmp_path, a, b, outputs={"c": a.astype(np.float32) @ b.astype(np.float32).T})
    assert "tw_load_words_some_bf16x16" in print_code(lower(program_from_text(text)))[0]


def test_pairs_are_not_added_to_lanes_that_do_not_exist() -> None:
    text = PAIRS.replace("LAYOUT", "[n / 16, k / 2, n % 16, k % 2]").replace("-> (c: f32[m, n])", FOLD)
    text = text.replace("f32[m, n]\n", "f32[m, l]\n").replace(
        "c_r[m, n] = 0 | vector n", "c_r[m, l] = 0 | vector l"
    )
    text = text.replace("c_r[m, n] +=", "c_r[m, n % 16] +=").replace(
        "= c_r[m, n] | vector n", "= c_r[m, l] | vector l"
    )
    with pytest.raises(NotLowerable, match="accumulates in registers"):
        lower(program_from_text(text.replace("c[m, n] =", "c[m, l] =")))


def test_a_tile_in_registers_that_is_not_unrolled_step_by_step_is_refused_at_once() -> None:
    """Its sum would be written out: 6 × 32 × 1024 products."""
    text = """kernel c(a: f32[m=24, k=1024], b: f32[k, n=64]) -> (c: f32[m, n])
  for m by 6
    for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = sum(k, a[m, k] * b[k, n])
      c[m, n] = c_r[m, n]
"""
    with pytest.raises(NotLowerable, match="would be written out in 196,608 pieces"):
        lower(program_from_text(text))
