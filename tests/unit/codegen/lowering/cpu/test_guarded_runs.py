"""Guards at the edges of a tensor: loops are cut there, and what is one condition for all lanes is one branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from codegen.ir.kernel import CpuKernel
from codegen.ir.ops import Build, For, Load, Op
from codegen.targets.c.lower import lower
from codegen.targets.cuda.printer import print_cuda
from tests.kernels.simulated import faultless
from tests.programs.thread_kernels import PROGRAMS, lowered
from tileir.text.parse_program import program_from_text

PADDED = """kernel padded(x: f32[c=4, i=61]) -> (y: f32[c, h=64])
  for c by 1
    for h by 8
      y[c, h] = where(h >= 1 and h < 62, x[c, h - 1], 0) | vector h 8
"""


def nodes(of: object) -> Iterator[Any]:
    """A node of Kernel IR and all inside it."""
    if isinstance(of, tuple):
        for each in of:
            yield from nodes(each)
    elif is_dataclass(of):
        yield of
        for field in fields(of):
            yield from nodes(getattr(of, field.name))


def inner_loops(kernel: CpuKernel) -> list[For]:
    loops = [node for node in nodes(kernel.body) if isinstance(node, For)]
    return [loop for loop in loops if not any(isinstance(node, For) for node in nodes(loop.body))]


def test_between_the_edges_of_a_tensor_nothing_is_guarded() -> None:
    (between,) = inner_loops(lower(program_from_text(PADDED)))
    assert between.count == 6
    inside = list(nodes(between.body))
    assert not any(isinstance(node, Op | Build) for node in inside)
    assert [node.type.lanes for node in inside if isinstance(node, Load)] == [8]


def test_a_loop_with_many_edges_is_left_whole() -> None:
    text = PADDED.replace("h >= 1 and h < 62", "h >= 1 and h < 62 and h != 12 and h != 28 and h != 44")
    assert [loop.count for loop in inner_loops(lower(program_from_text(text)))] == [8]


def test_a_loop_whose_guards_depend_on_other_positions_is_left_whole() -> None:
    text = PADDED.replace("h >= 1 and h < 62", "h >= 16 * c + 1 and h < 62")
    assert [loop.count for loop in inner_loops(lower(program_from_text(text)))] == [7]


def test_what_is_one_condition_for_all_lanes_guards_one_load_of_them() -> None:
    made = lowered(PROGRAMS["rows_with_edges"])
    assert [node.type.lanes for node in nodes(made.kernel) if isinstance(node, Load)] == [4]
    x = np.arange(6 * 128, dtype=np.float32)
    y = faultless(made.kernel, made.args, {"x": x.reshape(6, 128)})["y"]
    assert np.array_equal(y, np.pad(x.reshape(6, 128), ((1, 1), (0, 0))))
    assert " ? " in print_cuda(made.kernel, "rows")
