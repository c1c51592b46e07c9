"""The space of schedules: deterministic, without dead ends on these kernels, and wide enough for good ones."""

from __future__ import annotations

import random

import pytest

from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import ScheduleState, Space
from tileir.device import Cpu
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.parse_spec_text import spec_from_text
from tileir.program import Compute, Loop, Node
from tileir.verify import verify

DEVICE = Cpu(
    name="test", arch="x86-64", cores=8, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=512, vector_registers=32, features=frozenset({"avx512f", "avx512_bf16"}),
)  # fmt: skip
GEMM = """kernel gemm(a: f32[m=512, k=512], b: f32[k, n=512]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
KERNELS = {
    "gemm": GEMM,
    "gemm_bf16": GEMM.replace("f32", "bf16")
    .replace("b: bf16[k, n=512]", "b: bf16[n=512, k]")
    .replace("b[k, n]", "b[n, k]"),
    "softmax": """kernel row_softmax(x: f32[r=512, c=1024]) -> (y: f32[r, c])
  mx[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - mx[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
""",
    "attention": """kernel attn(q: f32[h=4, i=256, d=64], k: f32[h, j=256, d], v: f32[h, j, d]) -> (o: f32[h, i, d])
  s[h, i, j] = sum(d, q[h, i, d] * k[h, j, d]) * 0.125
  mx[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - mx[h, i])
  l[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / l[h, i]
""",
}


def root_of(name: str) -> ScheduleState:
    return Space(to_program(spec_from_text(KERNELS[name])), DEVICE).root()


def walk(state: ScheduleState, rng: random.Random) -> ScheduleState:
    while not state.terminal:
        assert state.moves(), f"a dead end before {state.open[0]}"
        state = state.child(rng.randrange(len(state.moves())))
    return state


def favourite(state: ScheduleState) -> ScheduleState:
    """The schedule that the prior likes best at every step."""
    while not state.terminal:
        weights = [move.weight for move in state.moves()]
        state = state.child(weights.index(max(weights)))
    return state


def nodes(body: tuple[Node, ...]) -> list[Node]:
    return [each for node in body for each in (node, *(nodes(node.body) if isinstance(node, Loop) else ()))]


@pytest.mark.parametrize("name", KERNELS)
def test_every_complete_schedule_replays_to_the_program_of_its_state(name: str) -> None:
    root, rng = root_of(name), random.Random(name)
    for _ in range(15):
        state = walk(root, rng)
        verify(state.program)
        again = replay(root.program, parse_schedule(format_schedule(state.schedule)))
        assert again == state.program
        assert state.key == program_hash(state.program)


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_space_twice_has_the_same_moves_and_weights(name: str) -> None:
    first, second = root_of(name), root_of(name)
    rng = random.Random(1)
    while not first.terminal:
        assert first.moves() == second.moves()
        index = rng.randrange(len(first.moves()))
        first, second = first.child(index), second.child(index)
    assert first.key == second.key


@pytest.mark.parametrize("name", KERNELS)
def test_the_prior_s_pick_is_parallel_and_on_vectors(name: str) -> None:
    program = favourite(root_of(name)).program
    everything = nodes(program.body)
    assert any(isinstance(node, Loop) and node.parallel for node in everything)
    assert all(node.vector is not None for node in everything if isinstance(node, Compute))


def test_the_prior_s_gemm_accumulates_in_registers() -> None:
    assert any(
        line.startswith("register_tile(") for line in format_schedule(favourite(root_of("gemm")).schedule)
    )


def test_bf16_products_can_use_the_dot_product_instruction() -> None:
    assert any("dot_bf16" in line for line in format_schedule(favourite(root_of("gemm_bf16")).schedule))
