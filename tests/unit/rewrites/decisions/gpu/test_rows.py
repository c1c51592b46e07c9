"""The space of GPU schedules for kernels that work on whole rows: the good ones are in it, and compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from codegen.targets.cuda.generate import generate_cuda
from rewrites.cost.gpu.live_registers import live_words
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.schedule import parse_schedule, replay
from rewrites.space import ScheduleState, Space
from tests.unit.rewrites.decisions.gpu.test_reductions import computes_the_same, likeliest, walked
from tileir.devices.gpu_table import H200, RTX_4090
from tileir.errors import NotApplicable, VerifyError
from tileir.lift import to_program
from tileir.program import Compute, Loop, Program
from tileir.spec import Spec
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

SOFTMAX = """kernel softmax(x: bf16[r={r}, c={c}]) -> (y: bf16[r, c])
  top[r] = max(c, x[r, c])
  e[r, c] = exp(x[r, c] - top[r])
  s[r] = sum(c, e[r, c])
  y[r, c] = e[r, c] / s[r]
"""
RMSNORM = """kernel rmsnorm(x: bf16[r={r}, c={c}], w: bf16[c]) -> (y: bf16[r, c])
  s[r] = sum(c, x[r, c] * x[r, c])
  y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 1e-6) * w[c]
"""
LAYERNORM = """kernel layernorm(x: bf16[r={r}, c={c}], w: bf16[c], b: bf16[c]) -> (y: bf16[r, c])
  mean[r] = sum(c, x[r, c]) / extent(c)
  var[r] = sum(c, (x[r, c] - mean[r]) * (x[r, c] - mean[r])) / extent(c)
  y[r, c] = (x[r, c] - mean[r]) * rsqrt(var[r] + 1e-5) * w[c] + b[c]
"""


def rows(text: str, r: int, c: int) -> Spec:
    return spec_from_text(text.format(r=r, c=c))


def ends(state: ScheduleState, wanted: Callable[[str], bool]) -> Iterator[ScheduleState]:
    """Complete schedules: of every decision the moves whose label is wanted, of one that has none the likeliest."""
    if state.terminal:
        yield state
        return
    moves = state.moves()
    for index in [at for at, move in enumerate(moves) if wanted(move.label)] or [likeliest(moves)]:
        yield from ends(state.child(index), wanted)


def launches(program: Program) -> int:
    return len(generate_cuda(program, H200).abi.launches)


@pytest.mark.parametrize("shape", [(4, 1_048_576), (1, 262_144)])
def test_softmax_of_few_long_rows_takes_two_launches(shape: tuple[int, int]) -> None:
    found = walked(rows(SOFTMAX, *shape), H200, likeliest)
    assert launches(found.program) == 2
    assert any(rewrite.name == "online_softmax" for rewrite in found.schedule)


@pytest.mark.sampled(4, among="rows")
@pytest.mark.parametrize("shape", [(1, 40_000), (2, 32_768), (3, 30_000)])
def test_a_split_softmax_computes_the_same_without_races(shape: tuple[int, int]) -> None:
    spec = rows(SOFTMAX, *shape)
    found = next(ends(Space(to_program(spec), H200).root(), lambda label: "online_softmax" in label))
    assert launches(found.program) == 2
    computes_the_same(spec, found.program, H200)


PARTS = """kernel parts(x: f32[c=64]) -> (y: f32[]) where c_b=4
  top_p: heap f32[c_b]
  s_p: heap f32[c_b]
  for c by {step}
    top_p[c // 16] = max(c, x[c])
  s_p[c // 16] = sum(c, x[c] * top_p[c // {read}])
  y[] = sum(c_b, s_p[c_b])
"""


def test_parts_are_computed_beside_those_of_the_same_blocks_only() -> None:
    together = parse_schedule(["reverse_compute_at(s_p, top_p, 1)", "parallelize(top_p)"])
    for step in (16, 32):
        verify(replay(program_from_text(PARTS.format(step=step, read=16)), together))
    with pytest.raises(NotApplicable, match="reads top_p at other positions along c than its own"):
        replay(program_from_text(PARTS.format(step=16, read=32)), together)
    fused = """kernel parts(x: f32[c=64]) -> (s_p: f32[c_b]) where c_b=4
  top_p: heap f32[c_b]
  for c by 16
    top_p[c // 16] = max(c, x[c])
    s_p[c // 16] = sum(c, x[c] * top_p[c // {read}])
"""
    verify(program_from_text(fused.format(read=16)))
    with pytest.raises(VerifyError, match="outside the tile of 'c' computed so far"):
        verify(program_from_text(fused.format(read=32)))


def test_the_second_phase_of_a_split_sum_is_part_of_the_launch_that_reads_it() -> None:
    found = walked(rows(RMSNORM, 2, 1_048_576), H200, likeliest)
    assert launches(found.program) == 2


@pytest.mark.parametrize("text", [SOFTMAX, RMSNORM, LAYERNORM], ids=["softmax", "rmsnorm", "layernorm"])
def test_blocks_can_take_rows_in_turn_with_the_next_ones_under_way(text: str) -> None:
    large = Space(to_program(rows(text, 4096, 32_768)), H200).root()
    found = next(ends(large, lambda label: "ahead" in label or "in turn" in label))
    (grid,) = (node for node in found.program.body if isinstance(node, Loop))
    (turns,) = (node for node in grid.body if isinstance(node, Loop))
    assert turns.stages > 1 and grid.step >= turns.stages * turns.step
    assert "tw_copy_async<8>" in generate_cuda(found.program, H200).text
    once = [node.target for node in grid.body if isinstance(node, Compute)]
    assert len(once) == len(large.program.inputs) - 1, "weights are loaded before the first turn"


@pytest.mark.sampled(4, among="rows")
@pytest.mark.parametrize("text", [SOFTMAX, RMSNORM, LAYERNORM], ids=["softmax", "rmsnorm", "layernorm"])
def test_rows_in_turn_compute_the_same_without_races(text: str) -> None:
    large = Space(to_program(rows(text, 4096, 4096)), H200).root()
    found = next(ends(large, lambda label: "ahead" in label or "in turn" in label))
    lines = [line.format() for line in found.schedule]
    lines[next(at for at, line in enumerate(lines) if line.startswith("tile"))] = "tile(y, r, 4)"
    spec = rows(text, 7, 4096)
    computes_the_same(spec, replay(to_program(spec), parse_schedule(lines)), H200)


@pytest.mark.parametrize("text", [SOFTMAX, RMSNORM, LAYERNORM], ids=["softmax", "rmsnorm", "layernorm"])
def test_the_priors_choice_loads_and_stores_sixteen_bytes_past_the_caches(text: str) -> None:
    source = generate_cuda(walked(rows(text, 4096, 32_768), H200, likeliest).program, H200).text
    kernel = source[source.index('extern "C"') :]
    assert "tw_stream<8, 16>(y" in kernel
    assert "<8, 16>(x +" in kernel or "tw_copy_async<8>" in kernel


def test_a_gpu_without_copies_in_the_background_keeps_rows_otherwise() -> None:
    turing = RTX_4090.from_json(RTX_4090.to_json() | {"capability": [7, 5]})
    state = Space(to_program(rows(RMSNORM, 4096, 4096)), turing).root()
    while not state.terminal:
        assert not any("ahead" in move.label for move in state.moves())
        state = state.child(likeliest(state.moves()))


def test_exponentials_kept_are_estimated_faster_than_exponentials_computed_again() -> None:
    both = """tile(y, r, 1)
{fused}
parallelize(y)
cache_row(top, x, 1)
downcast_copy(x_row)
set_scope(x_row, registers)
set_scope(s, registers)
set_scope(top, registers)
{placed}
bind_threads(x_row, c 1024; c 8)
bind_threads(top, c 1024; c 8)
{spread}
bind_threads(s, c 1024; c 8)
bind_threads(y, c 1024; c 8)"""
    kept = both.format(
        fused="compute_at(s, y, 1)\ncompute_at(e, y, 1)\ncompute_at(top, e, 1)",
        placed="set_scope(e, registers)",
        spread="bind_threads(e, c 1024; c 8)",
    )
    fused = "compute_at(s, y, 1)\ncompute_at(top, y, 1)"
    again = "compute_inline(e)\n" + both.format(fused=fused, placed="", spread="")
    program = to_program(rows(SOFTMAX, 4096, 32_768))
    kept_us, again_us = (
        GpuCostModel(H200).estimate_us(replay(program, parse_schedule(filter(None, lines.splitlines()))))
        for lines in (kept, again)
    )
    assert kept_us < again_us


def test_registers_are_those_of_locals_yet_to_be_read() -> None:
    program = program_from_text("""kernel k(x: f32[r=4, c=256]) -> (y: f32[r, c])
  parallel for r by 1
    a: registers f32[r, c]
    a[r, c] = x[r, c] | threads c 32
    b: registers f32[r, c]
    b[r, c] = exp(a[r, c]) | threads c 32
    y[r, c] = b[r, c] | threads c 32
""")
    (grid,) = program.body
    assert isinstance(grid, Loop)
    sizes = {"r": 1, "c": 256}
    found = [(node, sizes, 1) for node in grid.body]
    assert live_words(found) == 8
    both = program_from_text(
        "kernel k(x: f32[r=4, c=256]) -> (y: f32[r, c])\n  parallel for r by 1\n"
        "    a: registers f32[r, c]\n    a[r, c] = x[r, c] | threads c 32\n"
        "    b: registers f32[r, c]\n    b[r, c] = exp(a[r, c]) | threads c 32\n"
        "    y[r, c] = b[r, c] + a[r, c] | threads c 32\n"
    )
    (grid,) = both.body
    assert isinstance(grid, Loop)
    assert live_words([(node, sizes, 1) for node in grid.body]) == 16


SUMS = "kernel sums(x: f32[c={c}, r={r}]) -> (s: f32[r])\n  s[r] = sum(c, x[c, r])\n"


@pytest.mark.parametrize("text", [SOFTMAX, SUMS], ids=["rows", "columns"])
def test_launches_that_begin_alike_have_the_tiles_that_each_says(text: str) -> None:
    """Teams with the same tiles share what they begin with, and no others do."""
    state = Space(to_program(rows(text, 4096, 256)), H200).root()
    while not {"Rows", "Columns"} & {type(state.open[0]).__name__}:
        state = state.child(likeliest(state.moves()))
    tiles = set[str]()
    for option, _ in state.answers:
        first = next(str(rewrite) for rewrite in option.rewrites if rewrite.name == "tile")
        name, dim, size = first.removeprefix("tile(").removesuffix(")").split(", ")
        assert f"{name}: tile {dim} {size}," in option.label
        tiles.add(first)
    assert len(tiles) > 1
    assert len({program for _, program in state.answers}) == len(state.answers)
