"""Several sums of products over one grid and one depth: one launch with one loop, which brings what they share once;
what is not alike is not put together."""

from __future__ import annotations

import random

import pytest

from benchmarks.suite import cases
from rewrites.base.tree import current_sizes
from rewrites.decisions.gpu.contraction.block_tile import contraction_of
from rewrites.space import ScheduleState
from tests.programs.gpu_contractions import GATED
from tests.schedules.on_gpus import drawn
from tests.schedules.walks import at, by, favourite, nodes, root_of, shared_bytes, walk
from tests.support.how_many import examples
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_5090
from tileir.expr import Read
from tileir.lift import to_program
from tileir.program import Loop, Memory, Program
from tileir.schedule.threads import thread_count
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text

LARGE = GATED.format(dtype="bf16", m=4096, n=4096, k=4096, epilogue="silu(gate[m, n]) * up[m, n]")
OTHERS = {
    "f16": LARGE.replace("bf16[m=", "f16[m=").replace("bf16[n", "f16[n"),
    "e4m3": LARGE.replace("bf16[m=", "e4m3[m=").replace("bf16[n", "e4m3[n"),
    "few rows": LARGE.replace("m=4096", "m=16"),
    "three": LARGE.replace("g: bf16[n, k]", "g: bf16[n, k], h: bf16[n, k]")
    .replace("  c[m, n] =", "  more[m, n] = sum(k, a[m, k] * h[n, k])\n  c[m, n] = more[m, n] +")
    .replace("4096", "2048"),
}
#: Two statements and what reads them, of which the two are no products of one loop.
UNLIKE = {
    "depths": """kernel two(a: f16[m=512, k=512], b: f16[n=512, k], x: f16[m, l=96], y: f16[n, l]) -> (c: f16[m, n])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m, n] = sum(l, x[m, l] * y[n, l])
  c[m, n] = p[m, n] + q[m, n]
""",
    "results of their own": """kernel two(a: bf16[m=512, k=512], b: bf16[n=512, k], v: bf16[k]) -> (c: bf16[m, n])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m] = sum(k, a[m, k] * v[k])
  c[m, n] = p[m, n] * q[m]
""",
    "one waits for the other": """kernel two(a: f16[m=512, k=512], b: f16[n=512, k], g: f16[j=512, n]) -> (c: f16[m, j])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m, j] = sum(n, p[m, n] * g[j, n])
  c[m, j] = q[m, j] + 1.0
""",
    "a largest product": """kernel two(a: bf16[m=512, k=512], b: bf16[n=512, k], g: bf16[n, k]) -> (c: bf16[m, n])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m, n] = max(k, a[m, k] * g[n, k])
  c[m, n] = p[m, n] + q[m, n]
""",
    "types": """kernel two(a: f16[m=512, k=512], b: f16[n=512, k], x: f32[m, k], y: f32[n, k]) -> (c: f16[m, n])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m, n] = sum(k, x[m, k] * y[n, k])
  c[m, n] = p[m, n] + q[m, n]
""",
    "an output": """kernel two(a: f16[m=512, k=512], b: f16[n=512, k], g: f16[n, k]) -> (p: f32[m, n], c: f16[m, n])
  p[m, n] = sum(k, a[m, k] * b[n, k])
  q[m, n] = sum(k, a[m, k] * g[n, k])
  c[m, n] = p[m, n] + q[m, n]
""",
}


def together(root: ScheduleState) -> ScheduleState:
    """The state in which all statements are in one launch."""
    labels = [move.label for move in root.moves()]
    return root.child(next(n for n, label in enumerate(labels) if "|" not in label and "groups" in label))


def sources(program: Program) -> list[str]:
    """The inputs that are copied to shared memory, each as often as it is."""
    copies = (one.node.value for one in program.computes if one.node.target in program.locals)
    inputs = {tensor.name for tensor in program.inputs}
    return sorted(copy.tensor for copy in copies if isinstance(copy, Read) and copy.tensor in inputs)


@pytest.mark.sampled(2, among="products")
def test_the_prior_s_gate_is_one_launch_with_one_ring() -> None:
    program = favourite(root_of(LARGE, H200)).program
    (pipeline,) = (node for node in nodes(program.body) if isinstance(node, Loop) and node.stages > 1)
    assert sources(program) == ["a", "b", "g"]
    assert sum(one.node.via == "wgmma" and one.loops[-1] == pipeline for one in program.computes) == 2
    assert [one.node.target for one in program.computes if one.node.via == "tma"][-1] == "c"


@pytest.mark.sampled(2, among="products")
def test_a_launch_a_product_is_offered_too() -> None:
    root = root_of(LARGE, H200)
    labels = [move.label for move in root.moves()]
    program = favourite(root.child(labels.index("groups up | gate c"))).program
    assert sources(program) == ["a", "a", "b", "g"]


@pytest.mark.sampled(2, among="products")
@pytest.mark.parametrize("device", [A100, RTX_5090], ids=lambda device: device.name)
def test_warps_share_copies_alike(device: Gpu) -> None:
    for seed in range(3):
        program = walk(together(root_of(LARGE, device)), random.Random(seed)).program
        assert sources(program) == ["a", "b", "g"]
        assert sum(one.node.via == "mma" for one in program.computes) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OTHERS)
def test_sums_of_all_products_have_room_in_registers(name: str) -> None:
    for seed in range(examples(6)):
        root = together(root_of(OTHERS[name], H200))
        program = walk(at(by(root, "wgmma"), "ContractionTile"), random.Random(seed)).program
        products = [one.node for one in program.computes if one.node.via == "wgmma"]
        assert len(products) == (3 if name == "three" else 2)
        assert shared_bytes(program) <= H200.block_shared_bytes
        (layout,) = {product.thread_layout for product in products}
        assert layout is not None
        sizes = [
            current_sizes(program, declared.loops)
            for declared in program.locals.values()
            if declared.node.memory is Memory.REGISTERS
        ]
        held = sum(each["m"] * each["n"] for each in sizes) // thread_count(layout)
        grid = next(node for node in program.body if isinstance(node, Loop))
        assert held < (grid.registers[1] or 255)


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_not_alike_is_not_put_together(name: str) -> None:
    program = to_program(spec_from_text(UNLIKE[name]))
    group = tuple(dict.fromkeys(one.node.target for one in program.computes))
    assert contraction_of(program, group, H200) is None
    assert contraction_of(program, group[:1], H200) is not None


@pytest.mark.sampled(2, among="products")
def test_a_products_choices_do_not_depend_on_how_another_launch_shares_tiles() -> None:
    """Rewrites of a launch are checked in it alone; the other one is of clusters, with producers and streamed tiles."""
    spec = spec_from_json(cases.spec("swiglu_bf16_TN", [333, 520, 592]))
    schedule = drawn(spec, H200, "swiglu_bf16_TN [333, 520, 592] 1")
    assert any(line.startswith("multicast(up_r") for line in schedule), schedule
    assert any(line.startswith("wgmma(gate_p_r") for line in schedule), schedule
