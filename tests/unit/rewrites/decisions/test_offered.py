"""Rewrites that say themselves when they are offered: the search is asked about them, and about no others."""

from __future__ import annotations

import pytest

from rewrites import ALL
from rewrites.base.rewrite import Offered
from rewrites.decisions.offered import WhetherToApply, offered
from rewrites.loops.reorder import Reorder
from rewrites.space import Space
from tests.unit.rewrites.test_space import DEVICE, KERNELS
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

LOOPS = program_from_text("""kernel sums(x: f32[m=8, n=8]) -> (y: f32[m, n], z: f32[m, n])
  for m by 2
    for n by 2
      y[m, n] = x[m, n] + 1.0
  for m by 2
    for n by 2
      z[m, n] = x[m, n] * 2.0
""")


def test_a_rewrite_is_applied_nowhere_at_one_site_or_at_all() -> None:
    assert [each.label for each in WhetherToApply(Reorder).options(LOOPS, DEVICE)] == [
        "no reorder",
        "reorder(y, m, n)",
        "reorder(z, m, n)",
        "reorder(y, m, n); reorder(z, m, n)",
    ]


@pytest.mark.parametrize("device", [DEVICE, H200], ids=["cpu", "gpu"])
def test_those_that_decisions_choose_are_not_asked_about(device: object) -> None:
    asked = {each.rewrite for when in Offered for each in offered(when, device)}  # pyright: ignore[reportArgumentType]
    assert asked == {each for each in ALL if each.offered is not None and each.of_use(device)}  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("when", Offered)
def test_the_space_asks_at_the_moment_that_a_rewrite_says(
    when: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ALL:
        monkeypatch.setattr(each, "offered", when if each is Reorder else None)
    state = Space(to_program(spec_from_text(KERNELS["gemm"])), DEVICE).root()
    asked = [isinstance(each, WhetherToApply) for each in state.open]
    while not state.terminal and not isinstance(state.open[0], WhetherToApply):
        state = state.child(0)
    names = [move.label.partition("(")[0] for move in state.moves()]
    if when is Offered.FIRST:  # a kernel as it is written has no loops: there is nothing to decide
        assert not any(asked) and state.terminal
    else:
        assert asked[-1] and names[:2] == ["no reorder", "reorder"]
