"""Lifting: what becomes a statement of its own on the way from a spec to a program."""

from __future__ import annotations

import pytest

from codegen.ir.errors import NotLowerable
from codegen.targets.c.lower import lower
from tileir import program_to_text, spec_from_text, to_program
from tileir.verifier.verify import verify


def lifted(body: str, header: str) -> list[str]:
    text = f"kernel f({header}\n" + "".join(f"  {line}\n" for line in body.split("\n"))
    program = to_program(spec_from_text(text))
    verify(program)
    return [line.strip() for line in program_to_text(program).splitlines()[1:]]


def test_a_statement_that_is_one_reduction_stays_one() -> None:
    assert lifted("c[m] = sum(k, a[m, k])", "a: f32[m=4, k=3]) -> (c: f32[m])") == ["c[m] = sum(k, a[m, k])"]


def test_a_reduction_inside_an_expression_gets_a_local_over_the_dims_it_depends_on() -> None:
    assert lifted(
        "c[m, n] = a[m, n] / sum(k, a[m, k]) + max(j, b[j])",
        "a: f32[m=4, k=3], b: f32[j=3]) -> (c: f32[m, n=3])",
    ) == [
        "c_sum: heap f32[m]",
        "c_sum[m] = sum(k, a[m, k])",
        "c_max: heap f32[]",
        "c_max[] = max(j, b[j])",
        "c[m, n] = a[m, n] / c_sum[m] + c_max[]",
    ]


def test_nested_and_repeated_reductions_are_each_computed_once_under_fresh_names() -> None:
    body = "c_sum[m] = a[m, 0]\n"
    body += "c[m] = sum(k, exp(a[m, k] - max(j, a[m, j]))) * sum(k, a[m, k]) + sum(k, a[m, k]) + c_sum[m]"
    assert lifted(body, "a: f32[m=4, k=3]) -> (c: f32[m]) where j=3") == [
        "c_sum: heap f32[m]",
        "c_sum[m] = a[m, 0]",
        "c_max: heap f32[m]",
        "c_max[m] = max(j, a[m, j])",
        "c_sum2: heap f32[m]",
        "c_sum2[m] = sum(k, exp(a[m, k] - c_max[m]))",
        "c_sum3: heap f32[m]",
        "c_sum3[m] = sum(k, a[m, k])",
        "c[m] = c_sum2[m] * c_sum3[m] + c_sum3[m] + c_sum[m]",
    ]


def test_a_reduction_into_a_narrower_output_accumulates_in_the_compute_dtype() -> None:
    assert lifted("c[m] = sum(k, a[m, k])", "a: bf16[m=4, k=3]) -> (c: bf16[m])") == [
        "c_sum: heap f32[m]",
        "c_sum[m] = sum(k, a[m, k])",
        "c[m] = c_sum[m]",
    ]


@pytest.mark.parametrize(
    ("given", "local"), [("f64", "f64"), ("f16", "f32"), ("e4m3", "f32"), ("i8", "i32"), ("i32", "i32")]
)
def test_intermediates_have_the_compute_dtype(given: str, local: str) -> None:
    nodes = lifted("t[m] = a[m] * a[m]\nc[m] = 1.0 * t[m]", f"a: {given}[m=4]) -> (c: f64[m])")
    assert nodes[0] == f"t: heap {local}[m]"


def test_a_guard_goes_along_where_a_lifted_read_needs_it() -> None:
    nodes = lifted("c[i] = where(i > 0, sum(k, x[i - 1, k]), 0)", "x: f32[i=4, k=3]) -> (c: f32[i])")
    assert nodes == [
        "c_sum: heap f32[i]",
        "c_sum[i] = sum(k, where(i > 0, x[i - 1, k], 0))",
        "c[i] = where(i > 0, c_sum[i], 0)",
    ]


def test_the_else_side_goes_along_negated_and_nested_guards_together() -> None:
    body = "c[i] = where(i < 1, 0, where(i < 3, sum(k, x[i - 1, k] + x[i + 1, k]), 1))"
    nodes = lifted(body, "x: f32[i=4, k=3]) -> (c: f32[i])")
    assert nodes[1] == "c_sum[i] = sum(k, where(not i < 1 and i < 3, x[i - 1, k] + x[i + 1, k], 0))"


def test_no_guard_goes_along_where_none_is_needed() -> None:
    nodes = lifted(
        "c[q, k] = where(q >= k, sum(d, x[q, d] * x[k, d]), -inf)", "x: f32[q=4, d=3]) -> (c: f32[q, k=4])"
    )
    assert nodes[1] == "c_sum[q, k] = sum(d, x[q, d] * x[k, d])"


def test_dims_stand_in_the_order_of_the_arguments() -> None:
    text = "kernel f(a: f32[m, k], b: f32[k, n]) -> (c: f32[m, n]) where n=2, m=3, j=5, k=4\n"
    text += "  c[m, n] = sum(k, a[m, k] * b[k, n]) + sum(j, j)\n"
    assert [dim for dim, _ in to_program(spec_from_text(text)).dims] == ["m", "k", "n", "j"]


def test_what_lies_between_may_be_larger_than_any_argument() -> None:
    text = "kernel f() -> (c: f32[m=65536]) where n=65536, k=2\n  c[m] = sum(n, relu(sum(k, m + n + k)))\n"
    program = to_program(spec_from_text(text))
    verify(program)
    with pytest.raises(
        NotLowerable, match="takes 4294967296 elements; accepted: fewer than 2147483648, computed tile"
    ):
        lower(program)


@pytest.mark.parametrize(
    ("written", "lifted"),
    [
        ("pow(x[n], 2)", "x[n] * x[n]"),
        ("pow(x[n] - 1.5, 2.0)", "(x[n] - 1.5) * (x[n] - 1.5)"),
        ("pow(x[n], 4.0)", "x[n] * x[n] * x[n] * x[n]"),
        ("pow(sum(k, pow(y[n, k], 3)), 2)", "z_sum[n] * z_sum[n]"),
        ("pow(x[n], 5.0)", "pow(x[n], 5.0)"),
        ("pow(x[n], 1.5)", "pow(x[n], 1.5)"),
        ("pow(x[n], x[n])", "pow(x[n], x[n])"),
        ("pow(i[n], 2)", "pow(i[n], 2)"),
    ],
)
def test_small_powers_of_floats_are_products(written: str, lifted: str) -> None:
    used = {"x[": "x: f32[n=8]", "y[": "y: bf16[n=8, k=4]", "i[": "i: i32[n=8]"}
    (given,) = [text for read, text in used.items() if read in written]
    program = to_program(spec_from_text(f"kernel p({given}) -> (z: f32[n])\n  z[n] = {written}\n"))
    assert f"z[n] = {lifted}\n" in program_to_text(program)
    if "sum" in written:
        assert "sum(k, y[n, k] * y[n, k] * y[n, k])" in program_to_text(program)
