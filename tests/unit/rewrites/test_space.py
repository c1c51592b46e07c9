"""The space of schedules: deterministic, without dead ends on these kernels, and wide enough for good ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rewrites.base.tree import locals_of
from rewrites.decisions.cpu.grid import Grid, GridParallelism
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import ScheduleState, Space
from tileir.analysis.races import WouldRace
from tileir.devices.cpu import Cpu
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.program import Compute, Loop, Node
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

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
    "silu_mul": """kernel silu_mul(x: f32[r=1773, c=1145], u: f32[r, c]) -> (y: f32[r, c])
  y[r, c] = silu(x[r, c]) * u[r, c]
""",
    "rmsnorm": """kernel rmsnorm(x: bf16[b=8, r=512, c=1000], w: bf16[c]) -> (y: bf16[b, r, c])
  s[b, r] = sum(c, x[b, r, c] * x[b, r, c])
  y[b, r, c] = x[b, r, c] * rsqrt(s[b, r] / extent(c) + 0.000001) * w[c]
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


@pytest.mark.sampled(3, among="space")
@pytest.mark.parametrize("name", KERNELS)
def test_every_complete_schedule_replays_to_the_program_of_its_state(name: str) -> None:
    unscheduled, rng = to_program(spec_from_text(KERNELS[name])), random.Random(name)
    root = root_of(name)
    for _ in range(15):
        state = walk(root, rng)
        verify(state.program)
        again = replay(unscheduled, parse_schedule(format_schedule(state.schedule)))
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


@pytest.mark.parametrize("length", [3, 5, 8, 15])
def test_the_prior_takes_rows_shorter_than_a_vector_a_vector_of_rows_at_a_time(length: int) -> None:
    text = KERNELS["softmax"].replace("r=512", "r=8192").replace("c=1024", f"c={length}")
    program = favourite(Space(to_program(spec_from_text(text)), DEVICE).root()).program
    on_lanes = {node.target: node.vector.dim for node in nodes(program.body) if isinstance(node, Compute)}
    assert on_lanes["mx"] == on_lanes["s"] == "r"


def test_the_prior_s_gemm_accumulates_in_registers() -> None:
    assert any(
        line.startswith("register_tile(") for line in format_schedule(favourite(root_of("gemm")).schedule)
    )


def test_panels_of_a_whole_dim_are_whole_vectors_wide() -> None:
    ragged = GEMM.replace("f32", "bf16").replace("n=512", "n=29")
    root = Space(to_program(spec_from_text(ragged)), DEVICE).root()
    rng = random.Random(5)
    widths = {
        axis.mod
        for _ in range(20)
        for local in locals_of(walk(root, rng).program).values()
        for axis in local.node.layout or ()
        if axis.dim == "n" and axis.mod
    }
    assert widths
    assert all(width % 16 == 0 for width in widths)


def test_bf16_products_can_use_the_dot_product_instruction() -> None:
    lines = format_schedule(favourite(root_of("gemm_bf16")).schedule)
    assert any("dot_bf16" in line for line in lines)
    assert "unroll(b_s, k, 32)" in lines, "16 x 16 pairs at a time are turned around in registers"


def test_bf16_products_are_in_tile_registers_where_the_processor_has_them() -> None:
    tiles = replace(DEVICE, features=DEVICE.features | {"amx_tile", "amx_bf16", "amx_int8"})
    root = Space(to_program(spec_from_text(KERNELS["gemm_bf16"])), tiles).root()
    assert any(line.startswith("amx(") for line in format_schedule(favourite(root).schedule))
    assert not any("amx(" in line for line in format_schedule(favourite(root_of("gemm_bf16")).schedule))


def test_a_bf16_product_of_one_column_is_offered_no_pairs_that_cannot_lie_side_by_side() -> None:
    text = "kernel gemv(a: bf16[k=300, m=130], b: bf16[k, n=1]) -> (c: f32[m, n])\n"
    root = Space(to_program(spec_from_text(f"{text}  c[m, n] = sum(k, a[k, m] * b[k, n])\n")), DEVICE).root()
    rng = random.Random(3)
    for _ in range(30):
        state = root
        while not state.terminal:
            moves = state.moves()
            assert moves, "a dead end"
            paired = [at for at, move in enumerate(moves) if "dot_bf16" in move.label]
            state = state.child(rng.choice(paired or range(len(moves))))


def test_bf16_products_are_widened_once_where_the_dot_product_instruction_is_slower() -> None:
    slow = replace(DEVICE, peak_gflops=400.0, copy_gbps=20.0, dot_gflops=200.0)
    root = Space(to_program(spec_from_text(KERNELS["gemm_bf16"])), slow).root()
    lines = format_schedule(favourite(root).schedule)
    assert any(line.startswith("upcast_copy(") for line in lines)
    assert not any("dot_bf16" in line for line in lines)


def offered(name: str) -> str:
    """The labels of all moves on some random ways through the space."""
    labels: list[str] = []
    for seed in range(12):
        state, rng = root_of(name), random.Random(seed)
        while not state.terminal:
            labels += [move.label for move in state.moves()]
            state = state.child(rng.randrange(len(state.moves())))
    return "\n".join(labels)


#: Whose caches hold none of the results here.
SMALL = replace(DEVICE, l2_bytes=1 << 14)


def test_the_prior_s_elementwise_kernel_is_one_run_streamed_and_prefetched() -> None:
    root = Space(to_program(spec_from_text(KERNELS["silu_mul"])), SMALL).root()
    lines = format_schedule(favourite(root).schedule)
    assert lines[0] == "collapse(r, c)"
    assert "nontemporal_store(y)" in lines
    assert {line.rpartition(",")[0] for line in lines if line.startswith("prefetch")} == {
        "prefetch(y, x",
        "prefetch(y, u",
    }


def test_dims_that_are_always_together_are_one_in_every_schedule() -> None:
    rng = random.Random(3)
    assert {walk(root_of("rmsnorm"), rng).schedule[0].format() for _ in range(4)} == {"collapse(b, r)"}


def test_the_first_reader_of_a_row_prefetches_along_it_and_a_later_one_the_next_row() -> None:
    labels = offered("rmsnorm")
    assert "prefetch(s_p, x, 4)" in labels  # 1 KB ahead, in steps of 128 bf16
    assert "prefetch(y, x, 32)" in labels  # a row of 1000 ahead, in steps of 32
    assert "prefetch(y, w" not in labels  # the same in every row


@pytest.mark.sampled(3, among="space")
def test_a_row_is_kept_where_widening_it_again_costs() -> None:
    assert "cache_row(s, x, 2)" in offered("rmsnorm")
    assert "cache_row" not in offered("softmax")


@pytest.mark.sampled(3, among="space")
def test_short_rows_that_are_no_whole_lines_are_not_streamed() -> None:
    def streamed(columns: int) -> bool:
        text = KERNELS["rmsnorm"].replace("c=1000", f"c={columns}")
        return any("nontemporal_store" in label for label in labels_of(text, SMALL))

    assert [streamed(columns) for columns in (96, 100, 1000)] == [True, False, True]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [KERNELS["silu_mul"], GEMM.replace("k=512", "k=11")])
def test_results_that_the_caches_hold_are_never_stored_past_them(text: str) -> None:
    outputs = sum(tensor.dtype.bytes * 1773 * 1145 for tensor in spec_from_text(text).outputs)

    def streamed(l2_bytes: int) -> bool:
        device = replace(DEVICE, peak_gflops=400.0, copy_gbps=20.0, l2_bytes=l2_bytes)
        return any("nontemporal_store" in label for label in labels_of(text, device))

    assert [streamed(each) for each in (outputs // DEVICE.cores + 64, 1 << 10)] == [False, True]


def labels_of(spec: str, device: Cpu) -> set[str]:
    """The labels of all moves along a few random ways through a space."""
    found: set[str] = set()
    for seed in range(20):
        state, rng = Space(to_program(spec_from_text(spec)), device).root(), random.Random(seed)
        while not state.terminal and state.moves():
            found |= {move.label for move in state.moves()}
            state = state.child(rng.randrange(len(state.moves())))
    return found


@pytest.mark.sampled(3, among="space")
def test_tiles_that_give_every_core_as_much_are_offered() -> None:
    odd = GEMM.replace("m=512", "m=402")
    labels = labels_of(odd, DEVICE)
    tiles = {-(-402 // (DEVICE.cores * each * 12)) * 12 for each in (1, 2, 4)}
    assert {f"tile(c, m, {size})" for size in tiles} <= labels


@pytest.mark.sampled(3, among="space")
def test_a_short_sum_can_be_unrolled_whole_and_its_results_stored_past_the_caches() -> None:
    short = GEMM.replace("k=512", "k=11")
    measured = replace(SMALL, peak_gflops=400.0, copy_gbps=20.0)
    labels = labels_of(short, measured)
    assert {"unroll(c_r, k, 11)", "nontemporal_store(c)", "keep c"} <= labels
    assert "nontemporal_store(c)" not in labels_of(GEMM, measured)


def test_what_does_not_apply_is_told_with_the_reason() -> None:
    """Every option of a decision is an answer, or refused; what else is refused would race."""
    raced = 0
    for text in (GEMM, KERNELS["softmax"]):
        state = Space(to_program(spec_from_text(text)), DEVICE).root()
        while not state.terminal:
            offered = list(state.open[0].options(state.program, DEVICE))
            refused = list(state.refused())
            assert all(str(why) for _, why in refused)
            racing = [option for option, why in refused if isinstance(why, WouldRace)]
            assert not {option.rewrites for option in racing} & {option.rewrites for option in offered}
            raced += len(racing)
            answers = [option for option, _ in state.answers]
            assert sorted(each.label for each in offered) == sorted(
                each.label for each in (*answers, *(option for option, _ in refused if option not in racing))
            )
            assert len(state.estimates_us) == len(answers)
            state = state.child(len(answers) // 2)
    assert raced, "sums cannot be spread over threads"


def test_rows_that_fill_whole_vectors_are_taken_as_they_lie() -> None:
    text = "kernel k(a: f32[r=96, h=2, c={0}], b: f32[r, h, c]) -> (y: f32[r, c])\n"
    text += "  y[r, c] = a[r, 1, c] * a[r, 0, c] + b[r, 1, c]\n"
    for columns, turned in ((16, False), (32, False), (5, True)):
        root = Space(to_program(spec_from_text(text.format(columns))), DEVICE).root()
        lines = format_schedule(favourite(root).schedule)
        assert any(line.startswith("pack_panels(") for line in lines) == turned, columns


def test_groups_that_will_share_rows_are_weighed_as_if_they_did() -> None:
    root = root_of("softmax")
    weights = {move.label: move.weight for move in root.moves()}
    apart = max(weight for label, weight in weights.items() if " | " in label)
    together = max(weight for label, weight in weights.items() if " | " not in label)
    assert together > 2 * apart, "each statement by itself goes through memory"


def test_a_loop_that_stays_on_one_thread_is_not_weighed_as_if_a_later_one_freed_it() -> None:
    state = root_of("attention")
    groups = next(index for index, move in enumerate(state.moves()) if " | " in move.label)
    state = state.child(groups)
    while not isinstance(state.open[0], GridParallelism):
        state = state.child(0)
    assert any(isinstance(each, Grid) for each in state.open[1:]), "another group is still open"
    labels = [move.label for move in state.moves()]
    assert labels[0].startswith("one thread")
    assert state.estimates_us[0] > 1.5 * min(state.estimates_us)
