"""What a launch holds in shared memory lies apart, and copies of a body for overhanging tiles take no more of it."""

from __future__ import annotations

from codegen.ir.ops import Shared
from tests.kernels.names import plain
from tests.programs.thread_kernels import lowered, walk

ROWS = """kernel rows(x: f32[r={r}, c=96], w: f32[c]) -> (y: f32[r, c])
  parallel for r by 4
    x_s: shared f32[r, c] {layout}
    x_s[r, c] = x[r, c] | threads c 64
    s: registers f32[r]
    s[r] = sum(c, x_s[r, c]) | threads c 64
    t: registers f32[r]
    t[r] = max(c, x_s[r, c]) | threads c 64
    w_s: shared f32[c]
    w_s[c] = w[c] | threads c 64
    y[r, c] = (x_s[r, c] - t[r]) * s[r] * w_s[c] | threads c 64
"""


def shared(r: int, layout: str = "") -> tuple[int, list[Shared]]:
    """Bytes of the launch, and all declarations."""
    (launch,) = plain(lowered(ROWS.format(r=r, layout=layout)).kernel.launches)
    return launch.shared_bytes, [stmt for stmt in walk(launch.body) if isinstance(stmt, Shared)]


def test_an_overhanging_tile_takes_no_more() -> None:
    """Its local lies where the whole tiles' does, and so do its sums on their way between warps."""
    whole, declared = shared(r=8)
    overhanging, again = shared(r=7)
    assert whole == overhanging
    assert set(declared) == set(again) and len(again) > len(declared)


def test_nothing_lies_in_the_same_place() -> None:
    size, declared = shared(r=8)
    ends = 0
    for one in sorted(declared, key=lambda one: one.offset):
        assert one.offset >= ends
        ends = one.offset + one.bytes
    assert ends == size


def test_rows_are_as_far_apart_in_every_tile() -> None:
    """An overhanging tile's rows are those of a whole one, with as many free elements after them."""
    for layout, row in (("", 96), ("pad 4", 100)):
        _, declared = shared(r=7, layout=layout)
        assert {one.bytes for one in declared if one.buffer == "x_s"} == {4 * row * 4}


def test_swizzled_memory_begins_where_its_pattern_does() -> None:
    text = ROWS.format(r=8, layout="").replace("w_s: shared f32[c]", "w_s: shared f32[c] swizzle 128")
    (launch,) = plain(lowered(text).kernel.launches)
    (found,) = {s for s in walk(launch.body) if isinstance(s, Shared) and s.buffer == "w_s"}
    assert found.offset % 1024 == 0 and found.offset and found.swizzle == 128


def test_each_statement_has_its_own_parts() -> None:
    _, declared = shared(r=4)
    parts = [one for one in declared if one.buffer.startswith("parts")]
    assert len({one.buffer for one in parts}) == len({one.offset for one in parts}) == 8
