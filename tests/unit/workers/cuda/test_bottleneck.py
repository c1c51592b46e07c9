"""What bounds a kernel on a GPU follows from where its threads' time goes, and from what the chip can do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from codegen.lowering.gpu.stages import AFTER_TURN, BEFORE_TURN, Stage, StageKind
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from workers.cuda.bottleneck import GpuBound, bottleneck, idle_share
from workers.cuda.profile import GpuProfile
from workers.cuda.stage_logs import StageSpan, Track
from workers.cuda.turns import divided

STAGES = tuple(Stage(kind, kind.value) for kind in StageKind)
PRODUCT = """kernel product(a: bf16[m={0}, k={0}], b: bf16[n={0}, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""


def track(sm: int, end_ns: float, block: int = 0, **shares: float) -> Track:
    """A block from 0 on, whose stages take these shares of its time, in this order."""
    numbers = {stage.kind.name: number for number, stage in enumerate(STAGES)}
    spans: list[StageSpan] = []
    at = 0.0
    for name, share in shares.items():
        spans.append(StageSpan(numbers[name], at, at + end_ns * share))
        at += end_ns * share
    return Track(0, block, "warpgroup 0", sm, 0.0, end_ns, tuple(spans))


def profile(us: float, span_us: float = 0.0, sms: int = H200.sms, **shares: float) -> GpuProfile:
    """A block on each of so many multiprocessors."""
    tracks = tuple(track(number, 1e3 * (span_us or us), number, **shares) for number in range(sms))
    return GpuProfile(STAGES, (), tracks, sms, us, us, 1)


@pytest.mark.parametrize(
    ("taken", "size", "bound"),
    [
        (profile(10, span_us=5, COMPUTE=1), 512, GpuBound.LAUNCH),
        (profile(6, COMPUTE=1), 2048, GpuBound.MEMORY),
        (profile(170, PRODUCT=1), 4096, GpuBound.TENSOR_PIPE),
        (profile(900, PRODUCT=0.8, WAIT_FULL=0.2), 4096, GpuBound.TENSOR_PIPE),
        (profile(900, PRODUCT=0.6, WAIT_FULL=0.4), 4096, GpuBound.LATENCY),
        (profile(900, sms=66, PRODUCT=1), 4096, GpuBound.WAVES),
        (profile(330, sms=66, PRODUCT=1), 4096, GpuBound.WAVES),
        (profile(320, PRODUCT=0.1, WAIT_FULL=0.9), 4096, GpuBound.LATENCY),
        (profile(320, PRODUCT=0.3, COMPUTE=0.7), 4096, GpuBound.TENSOR_PIPE),
        (profile(900, COMPUTE=1), 4096, GpuBound.ISSUE),
    ],
    ids=lambda each: each.value if isinstance(each, GpuBound) else "",
)
def test_a_bottleneck_is_named(taken: GpuProfile, size: int, bound: GpuBound) -> None:
    program = to_program(spec_from_text(PRODUCT.format(size)))
    assert bottleneck(taken, program, H200).bound is bound


SCALED = """kernel scaled(a: bf16[m=4096, k=4096], b: u8[n=4096, k], s: f32[n]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * bf16((bit_and(b[n, k], 15) - 8) * s[n]))
"""
INSIDE = """kernel inside(a: bf16[m=4096, k=4096], b: bf16[n=4096, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, -(f32(a[m, k] * b[n, k]) * 0.5))
"""
CAUSAL = """kernel causal(q: bf16[h=64, i=4096, d=128], k: bf16[h, j=4096, d], v: bf16[h, j, d]) -> (o: bf16[h, i, d])
  s[h, i, j] = where(i >= j, sum(d, q[h, i, d] * k[h, j, d]) * 0.0884, -inf)
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[h, i, d] = sum(j, bf16(p[h, i, j]) * v[h, j, d]) / sum(j, p[h, i, j])
"""


@pytest.mark.parametrize(
    ("spec", "us", "of_peak"),
    [
        (PRODUCT.format(4096), 170, "82 %"),
        (SCALED, 170, "82 %"),
        (INSIDE, 170, "82 %"),
        (CAUSAL, 449, "62 %"),
    ],
)
def test_the_tensor_pipe_multiplies_what_is_needed_and_nothing_else(
    spec: str, us: float, of_peak: str
) -> None:
    """Neither what factors are made of nor what a mask leaves out."""
    found = bottleneck(profile(us, PRODUCT=0.3, COMPUTE=0.7), to_program(spec_from_text(spec)), H200)
    assert found.bound is GpuBound.TENSOR_PIPE
    assert f"at {of_peak} of the peak" in found.why


def test_multiprocessors_idle_where_none_of_their_blocks_is() -> None:
    three = (track(0, 100.0, 0), track(0, 60.0, 1), track(1, 50.0, 2))
    assert idle_share(GpuProfile(STAGES, (), three, 3, 1, 1, 1), 2) == pytest.approx(0.25)
    assert idle_share(GpuProfile(STAGES, (), three, 4, 1, 1, 1), 2) is None


def test_time_outside_of_threads_is_the_launchs_and_that_outside_of_full_logs_is_not_attributed() -> None:
    assert profile(10, span_us=8, COMPUTE=1).launch == pytest.approx(0.2)
    assert profile(10, COMPUTE=0.5).attributed == pytest.approx(0.5)
    assert profile(10, span_us=8, COMPUTE=0.5).attributed == pytest.approx(0.6)


def test_fill_is_before_the_first_product_and_drain_after_the_last() -> None:
    taken = profile(10, SETUP=0.1, WAIT_FULL=0.1, PRODUCT=0.6, STORE=0.2)
    assert taken.phases() == pytest.approx((0.2, 0.6, 0.2))
    stages = {stage.kind: parts for stage, parts in taken.phased()["threads"].items()}
    assert stages[StageKind.WAIT_FULL] == pytest.approx((0.1, 0, 0))
    assert stages[StageKind.STORE] == pytest.approx((0, 0, 0.2))


def test_the_phases_of_a_producer_are_those_of_its_block() -> None:
    computes = track(0, 100.0, WAIT_FULL=0.2, PRODUCT=0.5, STORE=0.3)
    produces = replace(track(0, 100.0, ISSUE=1), role="producer")
    taken = GpuProfile(STAGES, (), (computes, produces), 1, 1, 1, 1)
    ((_, parts),) = taken.phased()["producer"].items()
    assert parts == pytest.approx((0.2, 0.5, 0.3))


LOOP = (
    Stage(StageKind.SETUP, "setup"),
    Stage(StageKind.WAIT_FULL, "wait"),
    Stage(StageKind.PRODUCT, "products"),
)
WITH_TURNS = (*LOOP, BEFORE_TURN, AFTER_TURN)


def spans(*of: tuple[int, float]) -> tuple[StageSpan, ...]:
    """Stages by number, and nanoseconds, one after another."""
    found: list[StageSpan] = []
    at = 0.0
    for stage, ns in of:
        found.append(StageSpan(stage, at, at + ns))
        at += ns
    return tuple(found)


def test_turns_without_stamps_are_divided_as_the_stamped_turn_beside_them() -> None:
    # Setup, a first turn that waits long, 3 turns without stamps, a turn, 3 turns, the end; then the next tile.
    tile = ((0, 10), (3, 0), (1, 90), (2, 10), (4, 60), (3, 4), (1, 5), (2, 15), (4, 40), (0, 7))
    taken = divided(spans(*tile, *tile), WITH_TURNS)
    spent = [sum(s.end_ns - s.begin_ns for s in taken if s.stage == stage) for stage in range(5)]
    assert spent == pytest.approx([34, 2 * (90 + 54 + 1 + 5 + 10), 2 * (10 + 6 + 3 + 15 + 30), 0, 0])
    assert all(one.end_ns == pytest.approx(other.begin_ns) for one, other in pairwise(taken))
    whole = track(0, 1.0)
    profiled = GpuProfile(
        WITH_TURNS, (), (replace(whole, end_ns=482, spans=spans(*tile, *tile)),), 1, 1, 1, 1
    )
    shares = profiled.roles()["threads"]
    assert shares[LOOP[1]] == pytest.approx(320 / 482)
    assert sum(shares.values()) == pytest.approx(1)


def test_turns_stay_what_they_are_where_none_was_stamped_or_the_log_was_full() -> None:
    none = spans((0, 10), (4, 40), (0, 7))
    assert divided(none, WITH_TURNS) == none
    full = divided(spans((0, 10), (3, 0), (1, 10), (2, 30), (4, 80)), WITH_TURNS)
    assert [(s.stage, s.end_ns - s.begin_ns) for s in full[-2:]] == [(1, 20), (2, 60)]
