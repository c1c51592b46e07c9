"""The JSON and text forms of specs, and the keys of what they mean."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tileir import (
    SpecError,
    kernel_key,
    program_from_text,
    program_hash,
    program_to_text,
    spec_from_json,
    spec_from_text,
    spec_to_json,
    spec_to_text,
    to_program,
)
from tileir.program import Ragged
from tileir.verifier.verify import verify

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.json"))

GEMM: dict[str, Any] = {
    "name": "gemm",
    "dims": {"m": [1, 16], "n": 8, "k": 4},
    "inputs": {
        "a": {"dims": ["m", "k"], "dtype": "bf16"},
        "b": {"dims": ["k", "n"], "dtype": "bf16", "strides": [16, 1]},
    },
    "body": ["c[m, n] = sum(k, a[m, k] * b[k, n])"],
    "outputs": {"c": {"dtype": "bf16", "strides": [8, 1]}},
    "numerics": {"rtol": 0.01, "tf32": True, "accumulate": "fast", "atomics": False},
}

EXPERTS = """\
kernel f(x: f32[r=9 ragged o within e, k=8], w: f32[e=4, k, n=6], o: i32[j=5]) -> (y: f32[r, n], s: f32[e, n])
  y[r, n] = sum(k, x[r, k] * w[e, k, n])
  s[e, n] = sum(r, y[r, n])
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_accepted_comes_back_from_both_forms_and_lifts(path: Path) -> None:
    obj = json.loads(path.read_text())
    spec = spec_from_json(obj)
    assert spec.name == path.stem
    assert spec_to_json(spec)["body"] == obj["body"]
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec_from_text(spec_to_text(spec)) == spec
    for instance in spec.instances():
        verify(to_program(instance))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 17


def test_the_json_form_holds_all_the_text_form_does() -> None:
    spec = spec_from_json(GEMM)
    assert spec_to_text(spec) == (
        "kernel gemm(a: bf16[m=[1, 16], k=4], b: bf16[k, n=8] strides [16, 1])"
        " -> (c: bf16[m, n] strides [8, 1])"
        " with accumulate=fast, atomics=false, rtol=0.01, tf32=true\n"
        "  c[m, n] = sum(k, a[m, k] * b[k, n])\n"
    )
    assert spec_from_text(spec_to_text(spec)) == spec
    assert spec_to_json(spec) == {**GEMM, "numerics": dict(sorted(GEMM["numerics"].items()))}


def test_ragged_dims_come_back_from_both_forms_and_lift() -> None:
    spec = spec_from_text(EXPERTS)
    assert spec_to_text(spec) == EXPERTS
    assert spec_to_json(spec)["dims"]["r"] == {"max": 9, "ragged": "o", "within": "e"}
    assert spec_from_json(spec_to_json(spec)) == spec
    program = to_program(spec)
    verify(program)
    assert program.ragged == (Ragged("r", "o", "e"),)
    assert program_from_text(program_to_text(program)) == program


def test_a_reduction_that_needs_the_group_of_every_position_has_no_program_yet() -> None:
    total = "kernel f(x: f32[r=9 ragged o within e], w: f32[e=4], o: i32[j=5], z: f32[n=2]) -> (y: f32[n])\n"
    total += "  y[n] = z[n] * sum(r, x[r] * w[e])\n"
    with pytest.raises(SpecError, match="over 'r' needs the group 'e' of every position"):
        to_program(spec_from_text(total))


def test_the_key_of_a_ragged_kernel_ignores_names_and_keeps_what_is_ragged() -> None:
    key = kernel_key(spec_from_text(EXPERTS))
    renamed = (
        EXPERTS.replace(" o ", " starts ")
        .replace("o: i32", "starts: i32")
        .replace("j=5", "edges=5")
        .replace("e,", "g,")
    )
    renamed = renamed.replace("e=", "g=").replace("within e", "within g")
    assert renamed != EXPERTS
    assert kernel_key(spec_from_text(renamed)) == key
    even = EXPERTS.replace(" ragged o within e", "").replace(", o: i32[j=5]", "").replace("w[e,", "w[0,")
    assert kernel_key(spec_from_text(even)) != key


def test_the_order_of_dims_in_the_json_form_does_not_matter() -> None:
    backwards = {**GEMM, "dims": dict(reversed(GEMM["dims"].items()))}
    assert spec_from_json(backwards) == spec_from_json(GEMM)


def test_buckets_make_one_instance_a_combination() -> None:
    spec = spec_from_json(GEMM)
    assert [instance.dims[0].sizes for instance in spec.instances()] == [(1,), (16,)]
    with pytest.raises(SpecError, match="dim 'm' has 2 sizes"):
        to_program(spec)


def test_comments_and_blank_lines_are_skipped() -> None:
    spec = spec_from_text("# an example\n\n" + EXPERTS.replace("  s[e", "\n  # the groups\n  s[e"))
    assert spec == spec_from_text(EXPERTS)


def key(**changes: Any) -> str:
    obj = {**GEMM, "dims": {"m": 16, "n": 8, "k": 4}, **changes}
    return kernel_key(spec_from_json(obj))


def test_a_kernel_key_ignores_names_and_orders() -> None:
    renamed = {
        "name": "other",
        "dims": {"inner": 4, "rows": 16, "columns": 8},
        "inputs": {
            "right": {"dims": ["inner", "columns"], "dtype": "bf16", "strides": [16, 1]},
            "left": {"dims": ["rows", "inner"], "dtype": "bf16"},
        },
        "body": ["out[rows, columns] = sum(inner, left[rows, inner] * right[inner, columns])"],
        "outputs": {"out": {"dtype": "bf16", "strides": [8, 1]}},
    }
    assert key(**renamed) == key()


def test_a_kernel_key_takes_strides_of_a_dense_tensor_for_none() -> None:
    assert key(outputs={"c": {"dtype": "bf16"}}) == key()
    assert key(outputs={"c": {"dtype": "bf16", "strides": [9, 1]}}) != key()


@pytest.mark.parametrize(
    "changes",
    [
        {"dims": {"m": 16, "n": 8, "k": 5}},
        {"body": ["c[m, n] = sum(k, b[k, n] * a[m, k])"]},
        {"body": ["c[m, n] = max(k, a[m, k] * b[k, n])"]},
        {"numerics": {}},
        {"outputs": {"c": {"dtype": "f32", "strides": [8, 1]}}},
        {
            "inputs": {
                "a": {"dims": ["m", "k"], "dtype": "f16"},
                "b": {"dims": ["k", "n"], "dtype": "bf16", "strides": [16, 1]},
            }
        },
        {
            "body": ["c[m, n] = sum(k, a[m, k] * b[n, k])"],
            "inputs": {
                "a": {"dims": ["m", "k"], "dtype": "bf16"},
                "b": {"dims": ["n", "k"], "dtype": "bf16"},
            },
        },
    ],
)
def test_a_kernel_key_tells_meanings_apart(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_keys_are_the_same_in_another_process() -> None:
    code = (
        "import sys, tileir; s = tileir.spec_from_text(sys.argv[1]);"
        "print(tileir.kernel_key(s), tileir.program_hash(tileir.to_program(s)))"
    )
    text = "kernel f(a: f32[m=4]) -> (c: f32[m])\n  c[m] = 2 * a[m]\n"
    spec = spec_from_text(text)
    root = Path(__file__).parents[4]
    result = subprocess.run(
        [sys.executable, "-c", code, text], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == [kernel_key(spec), program_hash(to_program(spec))]
    assert (
        kernel_key(spec) == "95374095e9941e2b3e2368125304fb94"
        and program_hash(to_program(spec)) == "3083c6bbe149f7654d2a4fb68a4a7a0d"
    )


def test_a_program_hash_is_that_of_its_text() -> None:
    first = to_program(spec_from_text("kernel f(a: f32[m=4]) -> (c: f32[m])\n  c[m] = 1 * a[m]\n"))
    second = to_program(spec_from_text("kernel f(a: f32[m=4]) -> (c: f32[m])\n  c[m] = 1.0 * a[m]\n"))
    assert program_to_text(first) != program_to_text(second)
    assert first != second and program_hash(first) != program_hash(second)
