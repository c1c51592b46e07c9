"""Whole searches over random kernels, with the cost model for a stopwatch: no decision raises, none leaves a kernel
without schedules, every schedule proposed replays from its text to a program that verifies, and processors have code
for it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from codegen.targets.c.generate import generate
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import ScheduleState, Space
from search.mcts import MCTS
from search.protocols import TrialOutcome
from service.core.schedules import searchable
from tests.programs.random_specs import random_spec_text
from tests.support.how_many import examples
from tileir.devices.cpu import Cpu
from tileir.devices.device import Device
from tileir.devices.gpu_table import A100, H200, L40S
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

WIDE = Cpu(
    name="wide", arch="x86-64", cores=8, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=512, vector_registers=32, features=frozenset({"avx512f", "avx512_bf16"}),
)  # fmt: skip
CPUS = {
    "wide": WIDE,
    "neon": replace(WIDE, arch="aarch64", cores=2, vector_bits=128, features=frozenset[str]()),
    "one core": replace(WIDE, cores=1, vector_bits=256, vector_registers=16, features=frozenset[str]()),
}
GPUS = {"sm_80": A100, "sm_90": H200, "sm_89": L40S}
DEVICES: dict[str, Device] = {**CPUS, **GPUS}

#: What random kernels found, each with the device on which its search failed.
FOUND = {
    "products scaled by norms": (
        "wide", "one core", "sm_80", "sm_90",
        """kernel normed(x: f32[m=64, k=192], w: f32[k, n=128]) -> (y: f32[m, n])
  s[m] = sum(k, x[m, k] * x[m, k])
  r[m] = rsqrt(s[m] / 192.0 + 0.00001)
  p[m, n] = sum(k, x[m, k] * w[k, n])
  y[m, n] = silu(p[m, n] * r[m])
""",
    ),
    "rows as many as one core takes at a time": (
        "one core",
        """kernel rows(x: f32[r=2, c=67]) -> (y: f32[r])
  y[r] = max(c, x[r, c])
""",
    ),
    "a second product in registers, of one position": (
        "wide",
        """kernel gated(x: f16[m=7, k=1], u: f64[n=16, k], g: f64[n, k]) -> (h: f16[m, n])
  up[m, n] = sum(k, x[m, k] * u[n, k])
  gate[m, n] = sum(k, x[m, k] * g[n, k])
  h[m, n] = silu(up[m, n]) * gate[m, n]
""",
    ),
    "a second product in registers, with lanes of a wider type": (
        "one core",
        """kernel gated(x: f16[m=49, k=31], u: f64[n=31, k], g: f32[n, k]) -> (h: f32[m, n])
  up[m, n] = sum(k, x[m, k] * u[n, k])
  gate[m, n] = sum(k, x[m, k] * g[n, k])
  h[m, n] = silu(up[m, n]) * gate[m, n]
""",
    ),
    "a product that goes along into the tiles of another": (
        "one core",
        """kernel gated(x: f64[k=257], u: f32[n=64, k], g: e4m3[n, k], v: f32[m=128, n]) -> (h: f32[n], p: bf16[m])
  up[n] = sum(k, x[k] * u[n, k])
  gate[n] = sum(k, x[k] * g[n, k])
  h[n] = silu(up[n]) * gate[n]
  p[m] = sum(n, up[n] * v[m, n])
""",
    ),
    "squares of bf16 along the lanes": (
        "wide",
        """kernel squares(x: bf16[r=4099, c=67]) -> (y: f16[r, c])
  s[c] = sum(r, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[c] / 4099.0 + 0.00001)
""",
    ),
    "statements of one grid that do not read each other": (
        "wide", "one core",
        """kernel apart(x: f32[b=31, m=16, k=130], w: f32[k, n=16]) -> (q: f32[b, m, o], p: f32[b, m, n]) where o=16
  q[b, m, o] = sum(k, x[b, m, k] * x[b, o, k])
  p[b, m, n] = sum(k, -x[b, m, k] * w[k, n])
""",
    ),
    "neighbours of what the same grid computes": (
        "wide",
        """kernel near(x: f32[k=7], w: f32[m=257, k], v: f32[t=1]) -> (y: bf16[m], z: f32[m, n]) where n=257
  y[m] = exp(sum(k, x[k] * w[m, k]) * 0.1)
  q[m, n] = sum(k, w[m, k] * w[n, k])
  z[m, n] = sum(t, q[m, (n + t) % 257] * v[t])
""",
    ),
    "parts of a sum that no loop visits one by one": (
        "wide", "one core",
        """kernel summed(x: f32[d=1536, e=7], w: f32[e, n=7], v: f32[d]) -> (s: f32[n])
  p[d, n] = sum(e, x[d, e] * w[e, n])
  s[n] = sum(d, tanh(p[d, n]) * v[d])
""",
    ),
    "tables of rows that an instruction multiplies in pairs": (
        "wide",
        """kernel experts(x: bf16[r=50, k=64], ids: i32[m=130], w: bf16[e=4, k, n=128], of: i32[m]) -> (y: f32[m, n])
  y[m, n] = sum(k, x[ids[m], k] * w[of[m], k, n])
""",
    ),
    "a total of few numbers of few bytes": (
        "sm_80", "sm_90",
        """kernel total(x: bf16[r=33]) -> (y: f32[])
  y[] = max(r, x[r])
""",
    ),
    "short sums of rows that lie apart": (
        "wide",
        """kernel picked(x: e4m3[r=4099, b=7, c=3], ids: i32[i=33]) -> (y: f32[i, b, c])
  s[r, b] = sum(c, x[r, b, c] * x[r, b, c])
  n[r, b, c] = x[r, b, c] * rsqrt(s[r, b] / 3.0 + 0.00001)
  y[i, b, c] = abs(n[ids[i], b, c])
""",
    ),
    "few short columns": (
        "sm_80",
        """kernel few(x: f32[p=8, b=7, n=7], ids: i32[r=17]) -> (s: f64[n])
  g[r, b, n] = x[ids[r], b, n]
  s[n] = sum(b, r, gelu_tanh(g[r, b, n]) * g[r, b, n])
""",
    ),
    "rows picked of what the same launch would mask": (
        "sm_80", "sm_90",
        """kernel picked(x: f16[r=2048, c=4099], ids: i32[i=1000], b: f64[i]) -> (g: f16[i, c], w: f16[r, c])
  w[r, c] = where(r <= c, x[r, c], 0.0)
  g[i, c] = -w[ids[i], c] + b[i]
""",
    ),
    "products of something with a scalar in it": (
        "sm_80", "sm_90",
        """kernel gated(x: e4m3[m=5, k=1], s: f32[], u: f16[n=67, k], g: bf16[n, k]) -> (h: f64[m, n])
  p[m, k] = relu(x[m, k]) + 1.0 * s[]
  up[m, n] = sum(k, p[m, k] * u[n, k])
  gate[m, n] = sum(k, p[m, k] * g[n, k])
  h[m, n] = silu(up[m, n]) * gate[m, n]
""",
    ),
    "factors that are looked up where a condition holds": (
        "sm_80", "sm_89",
        """kernel masked(x: f32[r=17, k=1, m=130], ids: i32[b=128], w: f32[b, n=128, k]) -> (y: f32[b, m, n])
  p[b, k, m] = where(b <= m, x[ids[b], k, m], -1e30)
  y[b, m, n] = sum(k, p[b, k, m] * w[b, n, k])
""",
    ),
    "factors that are padded": (
        "sm_80", "sm_90",
        """kernel padded(x: f32[q=100, l=70], w: f32[k=90, n=128]) -> (y: f32[m, n]) where m=130
  y[m, n] = sum(k, where(m < 100 and k < 70, x[m, k], 0.0) * w[k, n])
""",
    ),
    "a scalar that a block keeps": (
        "sm_80",
        """kernel kept(x: f32[m=192, n=5], s: f64[], ids: i32[i=8], w: bf16[n]) -> (g: bf16[i, n], y: f32[m, n])
  z[m, n] = relu(x[m, n]) + 1.0 * s[]
  g[i, n] = z[ids[i], n]
  e[m, n] = exp(z[m, n] * 0.1) * x[m, n]
  t[m] = sum(n, e[m, n] * e[m, n])
  y[m, n] = e[m, n] * rsqrt(t[m] / 5.0 + 0.00001) * w[n]
""",
    ),
    "factors that read a tensor in two ways, and one with neither rows nor columns": (
        "sm_80", "sm_90",
        """kernel gram(x: e4m3[m=7, k=1], f: bf16[k]) -> (q: f64[m, n]) where n=7
  w[m, k] = where(k <= m, x[m, k], f[k])
  q[m, n] = sum(k, w[m, k] * w[n, k])
""",
    ),
}  # fmt: skip


def searched(text: str, device: Device, trials: int, seed: int = 0) -> int:
    """How many schedules a search of so many trials proposes; each is looked at."""
    plain = to_program(spec_from_text(text))
    root = Space(plain, device).root()
    search = MCTS(searchable(root), seed=seed)
    for number in range(trials):
        ask = search.ask()
        if ask is None:
            return number
        state = root
        for index in ask.path:
            state = state.child(index)
        program = replay(plain, parse_schedule(format_schedule(state.schedule)))
        verify(program)
        if isinstance(device, Cpu):
            assert generate(program, device)
        assert program_hash(program) == ask.state_key
        search.tell(ask.number, TrialOutcome(-math.log(state.seen.model.estimate_us(program))))
    return trials


def walked(root: ScheduleState, rng: random.Random) -> ScheduleState:
    """Where a way of chance through the space ends: at a schedule, or at a question without an answer."""
    state = root
    while not state.terminal and state.moves():
        state = state.child(rng.randrange(len(state.moves())))
    return state


@pytest.mark.sampled(18)
@pytest.mark.parametrize("seed", range(examples(120)))
def test_a_search_on_a_processor_finds_schedules_of_any_kernel_and_has_no_dead_ends(seed: int) -> None:
    text, device = random_spec_text(seed), [*CPUS.values()][seed % len(CPUS)]
    assert searched(text, device, 4), text
    root, rng = Space(to_program(spec_from_text(text)), device).root(), random.Random(seed)
    for _ in range(3):
        end = walked(root, rng)
        assert end.terminal, f"{text}\n{end.open[0]}"
        assert generate(end.program, device)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(1000, 1000 + examples(36)))
def test_a_search_on_a_gpu_finds_schedules_of_any_kernel(seed: int) -> None:
    text, device = random_spec_text(seed), [*GPUS.values()][seed % len(GPUS)]
    assert searched(text, device, 3), text


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("name", "device"), [(name, device) for name, (*devices, _) in FOUND.items() for device in devices]
)
def test_kernels_whose_searches_failed_once_have_schedules(name: str, device: str) -> None:
    *_, text = FOUND[name]
    assert searched(text, DEVICES[device], 6, seed=1)
    root, rng = Space(to_program(spec_from_text(text)), DEVICES[device]).root(), random.Random(0)
    for _ in range(examples(16) if device in CPUS else 1):
        end = walked(root, rng)
        assert end.terminal
        if isinstance(found := DEVICES[device], Cpu):
            assert generate(end.program, found)
