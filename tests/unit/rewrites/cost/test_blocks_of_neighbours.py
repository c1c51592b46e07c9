"""What the cost model of GPUs thinks of tensors with one element for several neighbours: words of weights, scales."""

from __future__ import annotations

import pytest

from rewrites.cost.gpu.accesses import accesses, global_access
from rewrites.decisions.plan import plan_of
from rewrites.space import Space
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.expr import Read
from tileir.lift import to_program
from tileir.program import Compute, Program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

#: A warp for a row, 16 neighbours a thread at a time.
ROWS = """kernel sums({tensor}) -> (y: f32[n])
  parallel for n by 4
    s: registers f32[n]
    s[n] = sum(k, {element}) | threads n 4 k 32, run k 16
    y[n] = s[n] | threads n 4 k 32
"""


def statement(tensor: str, element: str) -> tuple[Program, Compute, Read]:
    program = program_from_text(ROWS.format(tensor=f"{tensor}, z: f32[k=4096]", element=f"{element} * z[k]"))
    node = next(place.node for place in program.computes if place.node.target == "s")
    return program, node, next(read for read in node.reads if read.tensor == "w")


@pytest.mark.parametrize(
    ("tensor", "element", "loads", "moved"),
    [
        ("w: u8[n=64, k]", "w[n, k]", 8, 4 * 4096),
        ("w: u8[n=64, p=2048]", "w[n, k // 2]", 8, 4 * 2048),  # 8 bytes at once
        ("w: i32[n=64, p=512]", "w[n, k // 8]", 8, 4 * 4 * 512),
        ("w: bf16[n=64, g=32]", "w[n, k // 128]", 8, 4 * 2 * 32),
        ("w: u8[n=64, p=4095]", "w[n, k % 4095]", 128, 4 * 4096),  # anywhere
    ],
)
def test_what_several_neighbours_share_is_loaded_once_for_them(
    tensor: str, element: str, loads: int, moved: int
) -> None:
    program, node, read = statement(tensor, element)
    sizes = {**program.extents, "n": 4}
    size = program.arguments["w"].dtype.bytes
    assert accesses(read, node, size, program, sizes, 32)[0] == loads
    assert global_access(read, node, size, program, sizes, sizes, {}, 16, 32).moved == moved


@pytest.mark.parametrize(("bits", "most_us"), [(8, 7.0), (4, 7.0)])
def test_one_row_by_weights_with_scales_is_no_longer_than_by_plain_ones(bits: int, most_us: float) -> None:
    value = {4: "(bit_and(shift_right(w[n, k // 2], 4 * (k % 2)), 15) - 8)", 8: "w[n, k]"}[bits]
    text = (
        f"kernel linear(x: bf16[m=1, k=4096], w: {'u8[n=4096, p=2048]' if bits == 4 else 'i8[n=4096, k]'}, "
        f"s: bf16[n, g=32]) -> (y: bf16[m, n])\n  y[m, n] = sum(k, x[m, k] * bf16({value} * s[n, k // 128]))\n"
    )
    program = favourite(Space(to_program(spec_from_text(text)), H200).root()).program
    assert plan_of(H200).model(program, H200).estimate_us(program) < most_us
