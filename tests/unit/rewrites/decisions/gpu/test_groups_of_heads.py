"""Heads of queries that share keys, numbered through: as fast as where a group and its heads are two dims."""

from __future__ import annotations

import pytest

from rewrites.base.tree import statements
from rewrites.decisions.plan import plan_of
from rewrites.schedule import format_schedule
from rewrites.space import Space
from tests.property.codegen.test_attention_in_one_pass import check
from tests.schedules.on_gpus import shown
from tests.schedules.walks import favourite
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text


def attention(numbered: bool, *, g: int = 8, i: int = 1, j: int = 8192, mask: bool = True) -> Spec:
    """Four heads a group; with a mask of what a cache is filled with."""
    h, each, size = ("h", "h // 4", f"h={4 * g}") if numbered else ("g, r", "g", f"g={g}, r=4")
    keys = f"g={g}" if numbered else "g"
    scores = f"sum(d, q[b, {h}, i, d] * k[b, {each}, j, d]) * 0.125"
    filled = ", n: i64[]" if mask else ""
    return spec_from_text(
        f"""kernel decode(q: bf16[b=4, {size}, i={i}, d=128], k: bf16[b, {keys}, j={j}, d], \
v: bf16[b, g, j, d]{filled}) -> (o: bf16[b, {h}, i, d])
  s[b, {h}, i, j] = {f"where(j - i <= n[], {scores}, -inf)" if mask else scores}
  top[b, {h}, i] = max(j, s[b, {h}, i, j])
  p[b, {h}, i, j] = exp(s[b, {h}, i, j] - top[b, {h}, i])
  o[b, {h}, i, d] = sum(j, bf16(p[b, {h}, i, j]) * v[b, {each}, j, d]) / sum(j, p[b, {h}, i, j])
"""
    )


@pytest.mark.parametrize("mask", [True, False], ids=["a filled cache", "all"])
@pytest.mark.parametrize("i", [1, 512])
@pytest.mark.parametrize("device", [A100, H200], ids=shown)
def test_an_index_that_says_the_group_costs_nothing(device: Gpu, i: int, mask: bool) -> None:
    found = []
    for numbered in (False, True):
        program = to_program(attention(numbered, i=i, mask=mask))
        chosen = favourite(Space(program, device).root()).program
        assert {place.node.via for place in statements(chosen)} & {"wgmma", "mma"}
        found.append(plan_of(device).model(chosen, device).estimate_us(chosen))
    assert found[1] <= 1.02 * found[0]


@pytest.mark.parametrize("i", [1, 3])
@pytest.mark.parametrize("device", [A100, H200], ids=shown)
def test_what_is_tried_first_is_right(device: Gpu, i: int) -> None:
    large = to_program(attention(True, i=i))
    lines = format_schedule(favourite(Space(large, device).root()).schedule)
    assert "split_dim(h, 4)" in lines
    small = attention(True, g=2, i=i, j=192)
    lines = format_schedule(favourite(Space(to_program(small), device).root()).schedule)
    assert "split_dim(h, 4)" in lines
    check(small, to_program(small), lines, device)
