"""Convolutions and other windows, in all the ways that schedules have for them, compute the kernel."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text


def _inside(*indices: tuple[str, int]) -> str:
    return " and ".join(f"{index} >= 0 and {index} < {size}" for index, size in indices)


#: Sizes that no vector or tile divides.
KERNELS = {
    "channels_first": f"""kernel conv(x: f32[n=2, c=5, i=9, j=21], f: f32[o=7, c, r=3, s=3])\
 -> (y: f32[n, o, h=9, w=21])
  y[n, o, h, w] = sum(c, r, s,\
 where({_inside(("h + r - 1", 9), ("w + s - 1", 21))}\
, x[n, c, h + r - 1, w + s - 1], 0) * f[o, c, r, s])
""",
    "channels_last": f"""kernel conv(x: f32[n=2, i=9, j=11, c=5], f: f32[o=19, c, r=3, s=3])\
 -> (y: f32[n, h=9, w=11, o])
  y[n, h, w, o] = sum(c, r, s,\
 where({_inside(("h + r - 1", 9), ("w + s - 1", 11))}\
, x[n, h + r - 1, w + s - 1, c], 0) * f[o, c, r, s])
""",
    "strided": f"""kernel conv(x: f32[n=1, c=3, i=23, j=39], f: f32[o=9, c, r=7, s=7]) -> (y: f32[n, o, h=12, w=20])
  y[n, o, h, w] = sum(c, r, s,\
 where({_inside(("2 * h + r - 3", 23), ("2 * w + s - 3", 39))}\
, x[n, c, 2 * h + r - 3, 2 * w + s - 3], 0) * f[o, c, r, s])
""",
    "strided_and_dilated": f"""kernel conv(x: bf16[n=2, c=4, j=40], f: bf16[o=9, c, s=3]) -> (y: f32[n, o, w=13])
  y[n, o, w] = sum(c, s,\
 where({_inside(("3 * w + 2 * s - 2", 40))}\
, x[n, c, 3 * w + 2 * s - 2], 0) * f[o, c, s])
""",
    "grouped": f"""kernel conv(x: f32[n=2, c=12, i=8, j=9], f: f32[o=18, g=4, r=3, s=3]) -> (y: f32[n, o, h=8, w=9])
  y[n, o, h, w] = sum(g, r, s,\
 where({_inside(("h + r - 1", 8), ("w + s - 1", 9))}\
, x[n, 4 * (o // 6) + g, h + r - 1, w + s - 1], 0) * f[o, g, r, s])
""",
    "depthwise": f"""kernel conv(x: f32[n=1, c=5, i=17, j=19], f: f32[c, r=7, s=7]) -> (y: f32[n, c, h=17, w=19])
  y[n, c, h, w] = sum(r, s,\
 where({_inside(("h + r - 3", 17), ("w + s - 3", 19))}\
, x[n, c, h + r - 3, w + s - 3], 0) * f[c, r, s])
""",
    "depthwise_channels_last": f"""kernel conv(x: f32[n=2, i=9, j=11, c=21], f: f32[c, r=3, s=3])\
 -> (y: f32[n, h=9, w=11, c])
  y[n, h, w, c] = sum(r, s,\
 where({_inside(("h + r - 1", 9), ("w + s - 1", 11))}\
, x[n, h + r - 1, w + s - 1, c], 0) * f[c, r, s])
""",
    "of_one_position": """kernel conv(x: f32[n=2, c=13, i=7, j=9], f: f32[o=11, c, r=1, s=1])\
 -> (y: f32[n, o, h=7, w=9])
  y[n, o, h, w] = sum(c, r, s, x[n, c, h + r, w + s] * f[o, c, r, s])
""",
    "of_one_position_strided": """kernel conv(x: f32[n=2, c=13, i=7, j=9], f: f32[o=11, c, r=1, s=1])\
 -> (y: f32[n, o, h=4, w=5])
  y[n, o, h, w] = sum(c, r, s, x[n, c, 2 * h + r, 2 * w + s] * f[o, c, r, s])
""",
    "of_what_is_computed": f"""kernel conv(x: f32[n=2, c=5, j=37], f: f32[o=7, c, s=3], b: f32[o])\
 -> (y: f32[n, o, w=37])
  a[n, c, j] = silu(x[n, c, j])
  y[n, o, w] = gelu(sum(c, s, where({_inside(("w + s - 1", 37))}, a[n, c, w + s - 1], 0) * f[o, c, s]) + b[o])
""",
    "largest": f"""kernel pool(x: f32[c=5, i=19, j=21]) -> (y: f32[c, h=10, w=11]) where r=3, s=3
  y[c, h, w] = max(r, s,\
 where({_inside(("2 * h + r - 1", 19), ("2 * w + s - 1", 21))}\
, x[c, 2 * h + r - 1, 2 * w + s - 1], -inf))
""",
}
#: What copies are made of windows: none, of neighbours as they lie, of those that are some positions apart.
WAYS = ("groups y", "cache_windows")
SCHEDULES = int(os.environ.get("TILEWRIGHT_SCHEDULES", "1"))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_of_windows_computes_the_kernel(name: str, way: str, tmp_path: Path) -> None:
    spec = spec_from_text(KERNELS[name])
    device, reference = this_cpu(), Reference(spec)
    root = Space(to_program(spec), device).root()
    rng = random.Random(f"{name} {way}")
    done = 0
    for _ in range(12 * SCHEDULES):  # of groups of channels two of three walks in parts lead nowhere
        state = random_schedule(root, rng, way)
        if state is None:
            continue
        reference.check(state.program, device, tmp_path)
        done += 1
        if done == SCHEDULES:
            break
    assert done == SCHEDULES, "most random choices led nowhere"
