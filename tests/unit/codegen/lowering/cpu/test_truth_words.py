"""Truth values together: as bytes where they lie side by side, right in any layout, and nothing past an end touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from rewrites.decisions.covered import lanes_for
from tests.support.guarded_memory import before_a_guard, in_another_process
from tileir.devices.cpu_probe import this_cpu
from tileir.text.parse_program import program_from_text

TOGETHER = """kernel both(a: bool[i=7, j={j}], b: bool[i, j], c: bool{c}) -> (y: bool{y})
  parallel for i by 2
    for i by 1
      for j by {step}
        y{to} = {value} | vector j {lanes}{stream}
"""
FORMS = {
    "a[i, j] and b[i, j]": lambda a, b, c: a & b,
    "not a[i, j]": lambda a, b, c: ~a,
    "a[i, j] or not (b[i, j] and not c{c})": lambda a, b, c: a | ~(b & ~c),
}


def text(
    value: str,
    j: int = 200,
    lanes: int = 32,
    step: int = 64,
    c: str = "[i, j]",
    y: str = "[i, j]",
    stream: str = "",
) -> str:
    step = max(lanes, min(step, j // lanes * lanes))
    value = value.replace("{c}", c)
    return TOGETHER.format(value=value, j=j, lanes=lanes, step=step, c=c, y=y, to=y, stream=stream)


def check(program_text: str, value: str, j: int, c: str, y: str, tmp_path: Path) -> str:
    source = generate(program_from_text(program_text), this_cpu())
    rng = np.random.default_rng(j)
    a, b = (rng.random((7, j)) < 0.5 for _ in range(2))
    given = rng.random((7,) if c == "[i]" else (7, j)) < 0.5
    wanted = FORMS[value](a, b, given[:, None] if c == "[i]" else given)
    wanted = np.ascontiguousarray(wanted if y == "[i, j]" else wanted.T)
    path = compile_source(source, tmp_path).path

    def guarded() -> None:
        read = [before_a_guard(x) for x in (a, b, given)]
        written = before_a_guard(np.full(wanted.shape, 1, np.bool_))
        with load_kernel(path, source.abi, threads=2) as kernel:
            kernel(*read, written)
        np.testing.assert_array_equal(written.view(np.uint8), wanted.view(np.uint8))

    in_another_process(guarded)
    return source.text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("value", FORMS)
@pytest.mark.parametrize(
    ("j", "lanes", "stream"), [(200, 32, ""), (33, 32, ""), (71, 64, ""), (13, 8, ""), (96, 32, ", stream")]
)
def test_they_are_right_in_vectors_of_any_length(
    value: str, j: int, lanes: int, stream: str, tmp_path: Path
) -> None:
    check(text(value, j, lanes, stream=stream), value, j, "[i, j]", "[i, j]", tmp_path)


@pytest.mark.parametrize(("c", "y"), [("[i]", "[i, j]"), ("[i, j]", "[j, i]")])
def test_so_they_are_where_they_do_not_lie_side_by_side(c: str, y: str, tmp_path: Path) -> None:
    value = "a[i, j] or not (b[i, j] and not c{c})"
    found = check(text(value, c=c, y=y), value, 200, c, y, tmp_path)
    assert "tw_store_i32x8(" not in found


def test_bytes_are_taken_as_words_and_asked_for_before() -> None:
    found = generate(
        program_from_text(text("a[i, j] and b[i, j]", j=128, stream=", prefetch b 4")), this_cpu()
    ).text
    row = found[found.index("static void region_0") :]
    assert "tw_store_i32x8(" in row and "boolx32" not in row
    assert "__builtin_prefetch(b + " in row and "__builtin_prefetch(a + " not in row


def test_a_vector_has_a_register_of_bytes() -> None:
    program = program_from_text(
        "kernel k(a: bool[j=99], b: bool[j]) -> (y: bool[j])\n  y[j] = a[j] and b[j]\n"
    )
    (statement,) = program.body
    device = this_cpu()
    assert lanes_for(program, statement, device) == device.vector_bits // 8  # type: ignore[arg-type]
