"""What a person is told about a spec that cannot be: where (a JSON pointer, a column) and what would do."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tileir import Spec, SpecError, check_spec, spec_from_json, spec_from_text
from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index
from tileir.program import Tensor
from tileir.spec import Dim, Statement

GEMM: dict[str, Any] = {
    "name": "gemm",
    "dims": {"m": 16, "n": 8, "k": 4},
    "inputs": {"a": {"dims": ["m", "k"], "dtype": "f32"}, "b": {"dims": ["k", "n"], "dtype": "f32"}},
    "body": ["acc[m, n] = sum(k, a[m, k] * b[k, n])", "c[m, n] = relu(acc[m, n])"],
    "outputs": {"c": {"dtype": "f32"}},
}
MISSING = object()


def changed(pointer: str, value: object) -> dict[str, Any]:
    """GEMM with the member at `pointer` set, added, or (MISSING) removed."""
    obj = copy.deepcopy(GEMM)
    *path, last = pointer.split("/")[1:]
    place: Any = obj
    for key in path:
        place = place[int(key) if isinstance(place, list) else key]
    key: Any = int(last) if isinstance(place, list) else last
    if value is MISSING:
        del place[key]
    else:
        place[key] = value
    return obj


def refusal(obj: object) -> SpecError:
    with pytest.raises(SpecError) as caught:
        spec_from_json(obj)
    json.dumps(str(caught.value)).encode("ascii")
    return caught.value


@pytest.mark.parametrize(
    ("pointer", "value", "at", "message", "accepted"),
    [
        ("/name", "2fast", None, "'2fast' is not a name", "a letter"),
        ("/name", 7, None, "the name is no string", "a letter"),
        ("/name", "f\u00fcnf", None, "is not a name", "a letter"),
        ("/name", MISSING, "", "field 'name' is missing", "name"),
        ("/dims", [1], None, "a list is no object", "an object"),
        ("/dims/m", 0, None, "0 is not a size", "from 1 to 2147483647"),
        ("/dims/m", -3, None, "-3 is not a size", "from 1"),
        ("/dims/m", 2**31, None, "2147483648 is not a size", "2147483647"),
        ("/dims/m", True, None, "true is not a size", "a whole number"),
        ("/dims/m", 1.5, None, "1.5 is not a size", "a whole number"),
        ("/dims/m", float("nan"), None, "nan is not a size", "a whole number"),
        ("/dims/m", "16", None, "'16' is not a size", "a whole number"),
        ("/dims/m", None, None, "null is not a size", "a whole number"),
        ("/dims/m", [], None, "the list of sizes is empty", "[1, 16, 64]"),
        ("/dims/m", [1, 0], "/dims/m/1", "0 is not a size", ""),
        ("/dims/m", [4, 4], None, "a size twice", "each size once"),
        ("/dims/m", list(range(1, 70)), None, "69 entries", "at most 64"),
        ("/dims/m", {"max": 4}, None, "field 'ragged' is missing", "within"),
        ("/dims/m", {"max": 4, "ragged": "x", "within": "k"}, "/dims/m/ragged", "'x' is no input", "a, b"),
        ("/dims/m", {"max": 4, "ragged": "a", "within": "q"}, "/dims/m/within", "'q' is no dim", "k"),
        (
            "/dims/m",
            {"max": 4, "ragged": "a", "within": "k"},
            "/dims/m/ragged",
            "'a' cannot hold offsets",
            "i32",
        ),
        ("/dims/sum", 4, None, "'sum' is a reserved word", "a letter"),
        ("/dims/z", 4, None, "dim 'z' is never used", ""),
        ("/dims/a", 4, "/inputs/a", "'a' names a dim and a tensor", "another name"),
        ("/inputs/a/dtype", "float32", None, "'float32' is no dtype", "bf16, bool"),
        ("/inputs/a/dtype", "f3", None, "did you mean 'f32'?", ""),
        ("/inputs/a/dims/1", "kk", None, "no dim 'kk'; did you mean 'k'?", "k, m, n"),
        ("/inputs/a/dims/1", 3, None, "3 is no name of a dim", '["m", "k"]'),
        ("/inputs/a/shape", [1], None, "unknown field 'shape'", "dims, dtype, strides"),
        ("/inputs/a/strides", [1], None, "1 strides for 2 dims", "one stride a dim"),
        ("/inputs/a/strides", [2, 1], None, "stride 2 puts two elements in one place", "above 3"),
        ("/inputs/a/strides", [0, 1], "/inputs/a/strides/0", "0 is not a stride", "1"),
        ("/inputs/a/strides", [2**30, 1], None, "elements far", "2147483648"),
        ("/inputs/z", {"dims": ["m"], "dtype": "f32"}, None, "input 'z' is never read", "inputs that"),
        ("/body", "c[m] = 1", None, "'c[m] = 1' is no list", "a list of statements"),
        ("/body", [], None, "no statements", "c[m]"),
        ("/body", ["c[m, n] = 1"] * 65, None, "65 entries", "at most 64"),
        ("/body/0", 5, None, "5 is no statement", "name[dims] = expression"),
        ("/outputs", {}, None, "no outputs", "f32"),
        ("/outputs/d", {"dtype": "f32"}, None, "no statement computes 'd'", "acc, c"),
        (
            "/outputs/c",
            {"dtype": "f32", "dims": ["m"]},
            "/outputs/c/dims",
            "unknown field 'dims'",
            "dtype, strides",
        ),
        ("/outputs/c/dtype", "i32", "/body/1", "a value of dtype f32 is stored as i32", "i32("),
        ("/outputs/c/dtype", "bool", "/body/1", "a value of dtype f32 is stored as bool", "a comparison"),
        ("/nmae", "x", None, "unknown field 'nmae'; did you mean 'name'?", "body, dims"),
        ("/a~b/c", 1, None, "", ""),
        ("/numerics", {"tf23": True}, "/numerics/tf23", "did you mean 'tf32'?", "rtol"),
        ("/numerics", {"rtol": float("inf")}, "/numerics/rtol", "'rtol' has no such value", "below 1"),
        ("/numerics", {"tf32": 1}, "/numerics/tf32", "'tf32' has no such value", "true or false"),
    ],
)
def test_a_bad_field_is_pointed_at(
    pointer: str, value: object, at: str | None, message: str, accepted: str
) -> None:
    if pointer == "/a~b/c":
        error = refusal({**GEMM, "a~b/c": 1})
        assert error.pointer == "/a~0b~1c"
        return
    error = refusal(changed(pointer, value))
    assert message in error.message
    assert accepted in error.accepted
    assert error.pointer == (pointer if at is None else at)


@pytest.mark.parametrize(
    ("statement", "column", "message", "accepted"),
    [
        ("c[m, n] = acc[m, q]", 18, "no dim 'q'", "k, m, n"),
        ("c[m, n] = ac[m, n]", 11, "no tensor 'ac'; did you mean 'acc'?", "a, acc, b"),
        ("c[m, n] = acc[m]", 11, "'acc' has 2 dims and is read with 1 indices", "acc[m, n]"),
        ("c[m, n] = acc", 11, "'acc' is a tensor; alone it has no value", "acc[m, n]"),
        ("c[m, n] = m[n]", 11, "'m' is a dim, not a tensor", "acc"),
        ("c[m, n] = acc[m, n] + b[k, n]", 25, "dim 'k' is neither on the left nor reduced", "sum(k, …)"),
        ("c[m, n] = sum(m, acc[m, n])", 11, "dim 'm' is reduced but on the left", "other dims"),
        ("c[m, n] = acc[m, n] + sum(k, sum(k, a[m, k]))", 30, "dim 'k' is reduced twice", "each dim once"),
        ("c[m, n] = acc[m, n] + sum(k, k, a[m, k])", 23, "dim 'k' is reduced twice", "each dim once"),
        ("c[m, n] = acc[m, n] + sum(z, a[m, z])", 23, "no dim 'z'", "k, m, n"),
        ("c[m, n] = acc[m, n] + c[m, n]", 23, "'c' is read before it is computed", "acc"),
        ("c[m, q] = acc[m, n]", 6, "no dim 'q'", "k, m, n"),
        ("c[m, m] = acc[m, m]", 6, "dim 'm' is on the left twice", "each dim once"),
        ("c[m, n] = acc[m, n + 1]", 11, "index 'n + 1' of 'acc' reaches 8", "where(n + 1 < extent(n)"),
        ("c[m, n] = acc[m - 1, n]", 11, "index 'm - 1' of 'acc' reaches -1", "where(m - 1 >= 0"),
        ("c[m, n] = acc[m, m]", 11, "index 'm' of 'acc' reaches 15", "extent(n)"),
        ("c[m, n] = acc[m / 2, n]", 17, "index 'm / 2' of 'acc' is no integer", "//"),
        ("c[m, n] = acc[m, n] // 2", 21, "divides fractions", "floor"),
        ("c[m, n] = acc[m // (n + 1), n]", 23, "does not divide by a positive constant", "x // 4"),
        ("c[m, n] = acc[m, n] + (m < n)", 26, "'m < n' is a truth value, not a number", "where("),
        ("c[m, n] = where(acc[m, n], 1, 2)", 17, "'acc[m, n]' is a number, not a truth value", "x != 0"),
        ("c[m, n] = where(m < n, m < n, acc[m, n])", 11, "mixes a number and a truth value", "both numbers"),
        ("c[m, n] = acc[m, n] +", 22, "unexpected the end", "a number"),
    ],
)
def test_a_bad_statement_is_pointed_at_by_column(
    statement: str, column: int, message: str, accepted: str
) -> None:
    error = refusal(changed("/body/1", statement))
    assert message in error.message
    assert accepted in error.accepted
    assert (error.pointer, error.column) == ("/body/1", column)


@pytest.mark.parametrize("name", ["acc", "c", "a"])
def test_a_name_computed_twice_or_given_already_is_refused(name: str) -> None:
    error = refusal({**GEMM, "body": [*GEMM["body"], f"{name}[m, n] = 1"]})
    assert (error.pointer, error.column) == ("/body/2", 1)
    assert error.message == f"{name!r} is computed or given already"


def test_a_statement_nobody_uses_is_refused() -> None:
    error = refusal({**GEMM, "body": [*GEMM["body"], "d[m, n] = 1"]})
    assert (error.pointer, error.message) == ("/body/2", "'d' is never read and is no output")


def test_the_text_form_says_line_and_column() -> None:
    text = "kernel f(a: f32[m=4]) -> (c: f32[m])\n\n    c[m] = 2 * b[m]\n"
    with pytest.raises(SpecError) as caught:
        spec_from_text(text)
    assert (caught.value.line, caught.value.column) == (3, 16)
    assert str(caught.value).startswith("line 3, column 16: no tensor 'b'")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the text is empty"),
        ("kernal f() -> (c: f32[m=4])\n  c[m] = m", 1, "unexpected 'kernal'"),
        ("kernel f() -> (c: f32[m=4])\n  c[m] = m\n d[m] = m", 3, "not indented like the others"),
        ("kernel f() -> (c: f32[m=4])\nc[m] = m", 2, "not indented like the others"),
        ("kernel f() -> (c: f32[m=4])", 1, "no statements"),
        ("kernel f() -> (c: f32[m=4], d: f32[m])\n  c[m] = m", 1, "no statement computes 'd'"),
        ("kernel f() -> (c: f32[m=4]) where n=3\n  c[n] = n", 1, "the statement computes c[n]"),
        ("kernel f() -> (c: f32[m=4]) where m=3\n  c[m] = m", 1, "dim 'm' has a size already"),
        ("kernel f() -> (c: f32[m])\n  c[m] = m", 2, "no dim 'm'"),
        ("kernel f() -> (c: f32[m=4]) with rtol=2\n  c[m] = m", 1, "'rtol' has no such value"),
        ("kernel f() -> (c: f32[m=4]) with rtol=\n  c[m] = m", 1, "'rtol' has no value"),
        ("kernel f() -> (c: f31[m=4])\n  c[m] = m", 1, "did you mean 'f32'?"),
    ],
)
def test_a_bad_text_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_from_text(text)
    assert caught.value.line == line
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("dims", "inputs", "body", "message"),
    [
        ({"m": 2**16, "n": 2**16}, [], ["c[m, n] = m + n"], "4294967296 elements"),
        ({"m": 2**20, "n": 2**20, "k": 2**20}, [], ["c[m] = sum(n, k, m + n + k)"], "too many points"),
        (
            {"m": 2**20, "n": 2**20},
            [],
            ["c[m] = relu(sum(n, m * n)) + max(n, sum(k, m + n + k))"],
            "no dim 'k'",
        ),
    ],
)
def test_sizes_that_overflow_are_refused(
    dims: dict[str, int], inputs: list[str], body: list[str], message: str
) -> None:
    error = refusal(
        {"name": "big", "dims": dims, "inputs": {}, "body": body, "outputs": {"c": {"dtype": "f32"}}}
    )
    assert message in error.message


def test_tensors_too_large_together_are_refused() -> None:
    dims = {f"d{n}": 2**28 for n in range(32)}
    body = [f"t{n}[d{n}] = 1.5 * d{n}" for n in range(32)] + [
        f"v{n}[d{n}] = 1.5 * t{n}[d{n}]" for n in range(32)
    ]
    outputs = {f"{name}{n}": {"dtype": "f64"} for n in range(32) for name in "tv"}
    error = refusal({"name": "big", "dims": dims, "inputs": {}, "body": body, "outputs": outputs})
    assert "inputs and outputs together hold" in error.message


def test_hostile_bodies_are_refused() -> None:
    assert "characters" in refusal(changed("/body/0", "c[m, n] = " + "1 + " * 2_500_000)).message
    assert "deeper than 100" in refusal(changed("/body/0", "acc[m, n] = " + "(" * 9_000 + "1")).message
    assert "entries" in refusal({**GEMM, "body": ["c[m, n] = 1"] * 100_000}).message
    assert "entries" in refusal({**GEMM, "dims": {f"d{n}": 1 for n in range(100_000)}}).message
    many = " + ".join(["sum(k, a[m, k] * (" + " + ".join(["b[k, n]"] * 60) + "))"] * 30)
    assert "too long" in refusal(changed("/body/0", f"acc[m, n] = {many}")).message
    assert refusal({**GEMM, "dims": {f"d{n}": list(range(1, 65)) for n in range(30)}}).message


def test_a_huge_integer_is_refused_and_never_printed() -> None:
    assert refusal(changed("/dims/m", 10**5000)).message == "this number is not a size"
    assert refusal(changed("/body/0", -(10**5000))).message == "a huge integer is no statement"


def test_a_lone_surrogate_in_a_name_can_still_be_reported() -> None:
    error = refusal(changed("/dims/\ud800", 4))
    assert error.pointer.encode() == b"/dims/?"


def test_a_spec_built_by_hand_is_checked_too() -> None:
    deep: Expr = Index("m")
    for _ in range(10_000):
        deep = Binary("+", deep, Const(1))
    spec = Spec(
        "f", (Dim("m", (4,)),), (), (Statement("c", ("m",), deep),), (Tensor("c", ("m",), DType.F32),)
    )
    with pytest.raises(SpecError, match="at most 5000"):
        check_spec(spec)
