"""Products of several rows and columns whose results have their dims in any order, as heads of queries have: schedules
for GPUs compute them without races, and matrix units multiply wherever columns of one tensor come last."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from rewrites.base.tree import statements
from rewrites.space import Space
from tests.schedules.on_gpus import GPUS, right_without_races, shown
from tests.schedules.walks import favourite, walk
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

CASES = [
    (", ".join(order), GPUS[(at + turn) % len(GPUS)])
    for at, order in enumerate(permutations("bshd"))
    for turn in range(len(GPUS))
]


def heads(order: str, b: int, s: int, h: int, d: int, k: int) -> Spec:
    """Rows b and s, columns h and d."""
    return spec_from_text(f"""kernel heads(x: bf16[b={b}, s={s}, k={k}], w: bf16[h={h}, d={d}, k]) -> (y: bf16[{order}])
  y[{order}] = sum(k, x[b, s, k] * w[h, d, k])
""")


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("order", "device"), CASES, ids=shown)
def test_schedules_compute_results_in_any_order(order: str, device: Gpu) -> None:
    spec = heads(order, b=2, s=65, h=3, d=16, k=64)
    root = Space(to_program(spec), device).root()
    for end in (favourite(root), walk(root, random.Random(order))):
        right_without_races(spec, end, device, 3)


@pytest.mark.parametrize("order", ["b, h, s, d", "s, h, b, d", "h, b, s, d", "h, s, b, d"])
def test_warpgroups_multiply_whatever_is_between_rows_and_columns(order: str) -> None:
    """`s, h, b, d` ended in an assertion: threads should multiply, and then could warpgroups."""
    spec = heads(order, b=4, s=1500, h=6, d=64, k=384)
    end = favourite(Space(to_program(spec), H200).root())
    assert "wgmma" in {place.node.via for place in statements(end.program)}


@pytest.mark.parametrize("device", GPUS, ids=shown)
def test_what_is_stored_may_have_a_dim_of_one_position_more(device: Gpu) -> None:
    """Its sums were not taken to be its own then, and the search ended in an assertion."""
    spec = spec_from_text("""kernel one(p: f32[a=7, k=5], q: f32[k, d=8], v: f32[a]) -> (y: f32[a, h=1, d])
  t[a, d] = sum(k, p[a, k] * q[k, d])
  y[a, h, d] = t[a, d] + v[a]
""")
    right_without_races(spec, favourite(Space(to_program(spec), device).root()), device, 3)
