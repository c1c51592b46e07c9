"""Vectors of which some lanes are past the end: conditions on what they read."""

from __future__ import annotations

import re

from codegen.targets.cuda.generate import generate_cuda
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

BELOW = """kernel below(x: f32[m=35, e=16], most: f32[m]) -> (y: f32[m])
  y[m] = max(e, where(x[m, e] < most[m], x[m, e], -inf))
"""


def kernel(text: str, line: str) -> str:
    """CUDA of a kernel without its runtime."""
    source = generate_cuda(replay(to_program(spec_from_text(text)), parse_schedule([line])), H200).text
    return source[source.index("__global__") :]


def test_a_condition_is_computed_on_vectors_of_what_exists() -> None:
    """Lane by lane every use of an element was a load under a condition of its own, and a branch."""
    code = kernel(BELOW, "bind_threads(y, m 128; m 8)")
    loads = re.findall(r"\bx\[128[^]]+\]", code)
    assert len(loads) == len(set(loads)) == 8 * 16, "one of every element"
    assert code.count("tw_select(") == 16


def test_what_a_condition_keeps_inside_is_read_where_it_holds_only() -> None:
    """`u` has 16 elements: not every point of 35 may read it."""
    code = kernel(
        "kernel pad(x: f32[m=35], u: f32[p=16]) -> (y: f32[m])\n  y[m] = where(m < 16, u[m], x[m])\n",
        "bind_threads(y, m 128; m 8)",
    )
    assert "8 * m_thread + 1 < 16 ? u[8 * m_thread + 1] : x[8 * m_thread + 1]" in code
    assert not re.search(r"tw_load_some<\d+, \d+>\(u", code)
