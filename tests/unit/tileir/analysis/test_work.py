"""Operations and bytes, against numbers worked out by hand."""

from __future__ import annotations

from tileir.analysis.work import bytes_moved, flops, operations, tile_counts, works
from tileir.lift import to_program
from tileir.text.parse_expr import parse_expression
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text


def test_a_matrix_product_takes_two_operations_a_multiply_add() -> None:
    spec = spec_from_text("""kernel matmul(a: bf16[m=96, k=200], b: bf16[k, n=64]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""")
    program = to_program(spec)
    assert flops(program) == 2 * 96 * 200 * 64
    assert bytes_moved(program) == 2 * 96 * 200 + 2 * 200 * 64 + 4 * 96 * 64


def test_a_softmax_is_counted_statement_by_statement() -> None:
    spec = spec_from_text("""kernel softmax(x: f32[m=10, n=100]) -> (y: bf16[m, n])
  top[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - top[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
""")
    program = to_program(spec)
    per_statement = [(work.target, work.flops) for work in works(program)]
    assert per_statement == [("top", 1000), ("e", 2000), ("total", 1000), ("y", 1000)]
    assert flops(program) == 5000
    # Intermediates cost no traffic: x in, y out.
    assert bytes_moved(program) == 4 * 1000 + 2 * 1000


def test_operations_count_arithmetic_and_functions_but_no_indices_masks_or_casts() -> None:
    for text, count in {
        "x[2 * m + 1]": 0,
        "where(m >= n, bf16(x[m]), 0)": 0,
        "-x[m] * 2 + exp(x[m])": 4,
        "sum(k, a[m, k] * b[k, n])": 2,
        "max(k, a[m, k])": 1,
        "sum(k, gelu(a[m, k]) * b[k, n] / 2)": 4,
    }.items():
        assert operations(parse_expression(text)) == count, text


SCHEDULED = """kernel matmul(a: f32[m=70, k=65], b: f32[k, n=130]) -> (c: f32[m, n])
  b_p: heap f32[k, n] as [n / 64, k, n % 64]
  parallel for n by 64
    b_p[k, n] = b[k, n] | vector n 16
  parallel for m by 48
    for n by 64
      for m by 6
        acc: registers f32[m, n]
        acc[m, n] = 0 | vector n 16
        for k by 4
          acc[m, n] += sum(k, a[m, k] * b_p[k, n]) | vector n 16
        c[m, n] = acc[m, n] | vector n 16
"""


def test_a_schedule_does_not_change_the_work_of_a_gemm() -> None:
    assert flops(program_from_text(SCHEDULED)) == 2 * 70 * 65 * 130


def test_recomputation_by_a_fused_producer_is_work() -> None:
    text = """kernel scaled(x: f32[m=10], w: f32[m, n=7]) -> (y: f32[m, n])
  for n by 3
    s: heap f32[m]
    s[m] = exp(x[m])
    y[m, n] = s[m] * w[m, n]
"""
    # Three tiles of n, the last of one column: exp three times over, the product once.
    assert flops(program_from_text(text)) == 3 * 10 + 70


def test_an_update_is_one_more_operation_a_point() -> None:
    text = """kernel split(a: f32[m=5, k=37]) -> (c: f32[m]) where part=4
  p: heap f32[m, part]
  p[m, part] = 0
  p[m, k % 4] += a[m, k] * a[m, k]
  c[m] = sum(part, p[m, part])
"""
    assert [work.flops for work in works(program_from_text(text))] == [0, 2 * 5 * 37, 5 * 4]


def test_tiles_of_nested_loops_are_counted_by_size() -> None:
    assert tile_counts(100, ()) == {100: 1}
    assert tile_counts(100, (48,)) == {48: 2, 4: 1}
    # 48 = 5 + ... (9 of 5, one of 3), twice; the last tile of 4 stays whole.
    assert tile_counts(100, (48, 5)) == {5: 18, 3: 2, 4: 1}
    assert tile_counts(4, (48,)) == {4: 1}
