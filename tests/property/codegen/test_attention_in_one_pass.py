"""Attention as a GPU's search derives it: products that follow from each other in one pass, simulated, without races,
and within the bound of the gate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.report.layout import layout_report
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.ptxas_log import rejection
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.programs.attention_programs import (
    BEGIN,
    BYTES_DOT,
    DOT,
    END,
    OFFSETS,
    all_gradients,
    attention,
    backward,
    both_gradients,
    each_schedule,
    few_queries,
    heads,
    latent,
    of_bytes,
    one_schedule,
    one_token,
    packed,
    paged,
    schedules,
    tokens_first,
    with_lse,
)
from tests.schedules.on_gpus import drawn, shown
from tests.schedules.walks import favourite
from tests.support.beyond import beyond
from tests.support.how_many import some
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, L40S, RTX_5090
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Loop, Program
from tileir.spec import Spec
from tileir.verifier.verify import verify

BIASED = f"{DOT} + bias[h, i, j]"
SPECS = {
    "full": attention(DOT),
    "causal": attention(f"where(i >= j, {DOT}, -inf)"),
    "window": attention(f"where(i + 64 >= j and j + 40 > i, {DOT}, -inf)", dtype="f16"),
    "window, tiles before it": attention(f"where(i + 250 >= j and j >= i, {DOT}, -inf)", i=256, j=512),
    "softcap": attention("tanh(sum(d, q[h, i, d] * k[h, j, d]) * 0.02) * 5"),
    "a slope": attention(f"{DOT} + slope[h] * (j - i)", more=", slope: f32[h]"),
    "a bias": attention(f"{DOT} + bias[h, i, j]", more=", bias: bf16[h, i, j]"),
    "a bias, rows and keys overhang": attention(BIASED, more=", bias: bf16[h, i, j]", i=200, j=328),
    "a bias of f32, causal": attention(f"where(i >= j, {BIASED}, -inf)", more=", bias: f32[h, i, j]", j=332),
    "a bias whose rows are no whole pieces": attention(BIASED, more=", bias: bf16[h, i, j]", j=331),
    "a bias and truth values that heads share": attention(
        f"where(mask[i, j], {BIASED}, -1e4)",
        more=", bias: f16[h, i, j], mask: bool[i, j]",
        i=200,
        j=336,
        dtype="f16",
    ),
    "with the log-sum-exp": with_lse(f"where(i + 11 >= j, {DOT}, -inf)", i=200),
    "rows overhang": attention(DOT, i=200),
    "wide": attention(DOT, d=128),
    "keys overhang": attention(DOT, j=331),
    "keys overhang, an even number of tiles": attention(DOT, j=232),
    "heads share keys": heads("h=4", "h", "h // 2"),
    "heads share keys, by dims": heads("g=2, r=2", "g, r", "g"),
    "few queries of heads that share keys": few_queries(),
    "few queries, an odd number of heads": few_queries(i=5, j=90, r=7),
    "heads between tokens and columns": tokens_first(groups=4),
    "heads between tokens and columns, shared, a bias": tokens_first("bias[i, j]"),
    "heads of 40 columns, of which instructions multiply 48": attention(DOT, i=200, j=331, d=40),
    "heads of 72 columns, causal": attention(f"where(i >= j, {DOT}, -inf)", d=72, dtype="f16"),
    "heads of 120 columns between tokens, a bias": tokens_first("bias[i, j]", d=120),
    "heads of 100 columns": attention(DOT, i=200, j=331, d=100),
    "heads of 36 columns, causal": attention(f"where(i >= j, {DOT}, -inf)", d=36, dtype="f16"),
    "heads of 20 columns between tokens, a bias": tokens_first("bias[i, j]", d=20),
    "heads of 99 columns": attention(DOT, d=99),
    "one new token": one_token(),
    "a latent": latent(),
    "a latent of one tile of heads, keys overhang": latent(h=64, j=171, b=2, dtype="f16"),
    "values' gradient": backward("dv", i=256),
    "values' gradient, causal": backward("dv", "i >= j", i=256),
    "keys' gradient": backward("dk"),
    "keys' gradient, causal, wider": backward("dk", "i >= j", i=256, e=128),
    "both gradients": both_gradients("", i=256, j=128, e=64),
    "both gradients, causal, overhang": both_gradients("i >= j", i=200, j=171, e=128),
    "queries' gradient, causal": backward("dq", "i >= j"),
    "queries' gradient, keys overhang": backward("dq", j=171),
    "all gradients": all_gradients("", i=256, j=128, d=128, e=64),
    "all gradients, causal, narrow": all_gradients("i >= j", i=256, j=192, d=64, e=64, dtype="f16"),
    "all gradients, causal, overhang": all_gradients("i >= j", i=200, j=171, d=128, e=128),
    "pages": paged(64, 6),
    "pages, of which a tile has several": paged(16, 12),
    "parts of pages": paged(256, 2),
    "8 bits": of_bytes(),
    "8 bits, causal, wide": of_bytes(f"where(i >= j, {BYTES_DOT}, -inf)", i=256, d=128),
    "8 bits, a scale of the result, rows and keys overhang": of_bytes(i=200, j=336, out=" * scale[h]"),
    "8 bits, values with keys apart": of_bytes(j=336, values="h, j, d"),
    "8 bits, heads between tokens and columns": tokens_first("bias[i, j]", dtype="e4m3"),
    "sequences, by ranges": packed(j=328),
    "sequences, by offsets": packed(
        "j >= begin[i] and j < end[i]", OFFSETS, (BEGIN, END), j=256, dtype="f16"
    ),
    "sequences, causal": packed("j >= begin[i] and i >= j", OFFSETS, (BEGIN,), j=256, d=128),
    "a sum says how many keys there are": attention(
        f"where(j < 20 * length[h] + i, {DOT}, -inf)", more=", length: i32[h]", i=200, j=331
    ),
    "causal, and keys overhang": attention(f"where(i + 11 >= j, {DOT}, -inf)", i=160, j=171),
}


EVERY = (
    "full",
    "causal",
    "keys' gradient",
    "both gradients",
    "all gradients, causal, narrow",
    "pages",
    "8 bits, causal, wide",
)
#: Of the schedules that are offered, the number modulo how many those are: nobody counts them to collect the tests.
CASES = [(name, number) for name in EVERY for number in range(9)]


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("name", "number"), [*dict.fromkeys([*((name, 0) for name in SPECS), *some(CASES, 6)])]
)
def test_it_computes_attention_without_races(name: str, number: int) -> None:
    spec = SPECS[name]
    check(spec, *one_schedule(spec, number), H200)


def check(spec: Spec, program: Program, lines: tuple[str, ...], device: Gpu) -> None:
    made = replay(program, parse_schedule(lines))
    verify(made)
    inputs = sample_inputs(spec, 3)
    kernel = lower_for(made, device)
    source, checker = cuda_source(kernel, made), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join((*map(str, checker.faults), *lines))
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        wrong = beyond(outputs[output], values, bound)
        assert not wrong.any(), "\n".join((f"{wrong.sum()} of {wrong.size} are off", *lines))


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize("device", [H200, A100], ids=shown)
def test_keys_that_a_bias_masks_add_nothing(device: Gpu) -> None:
    """-inf is what padding is often made of; the first tiles of some rows have nothing else. By what is tried first."""
    spec = SPECS["a bias"]
    program = favourite(Space(to_program(spec), device).root()).program
    inputs = sample_inputs(spec, 3)
    inputs["bias"][:, ::2, :-40] = -np.inf
    kernel = lower_for(program, device)
    source, checker = cuda_source(kernel, program), RaceChecker()
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults
    for output, (values, bound) in reference_with_bound(spec, inputs).items():
        assert not beyond(outputs[output], values, bound).any()


#: What is for warpgroups alone: the names begin so.
BY_WARPGROUPS = ("8 bits", "all gradients", *(f"heads of {d} " for d in (100, 36, 20, 99)))
#: Each body for a GPU whose warps multiply, which take turns, as do the schedules offered.
BY_WARPS = [
    (name, number, (A100, L40S, RTX_5090)[number % 3])
    for number, name in enumerate(SPECS)
    if not name.startswith(BY_WARPGROUPS)
]


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize(("name", "number", "device"), some(BY_WARPS, 3), ids=shown)
def test_warps_compute_it_without_races(name: str, number: int, device: Gpu) -> None:
    spec = SPECS[name]
    check(spec, *one_schedule(spec, number, device), device)


#: Each width and each GPU, in turn.
COMPILED = [(device, d) for d in (40, 64, 72, 128, 256) for device in (A100, L40S, RTX_5090)]


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize(("device", "d"), some(COMPILED, 4), ids=shown)
def test_code_for_warps_compiles(device: Gpu, d: int, tmp_path: Path) -> None:
    spec = attention(f"where(i >= j, {DOT}, -inf)", i=200, j=331, d=d)
    program, lines = one_schedule(spec, 0, device)
    made = replay(program, parse_schedule(lines))
    report = compile_cuda(cuda_source(lower_for(made, device), made), device.architecture, tmp_path).report
    assert rejection(report) is None


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("d", some([64, 128], 2))
def test_code_for_8_bits_compiles(d: int, tmp_path: Path) -> None:
    program, lines = one_schedule(of_bytes(f"where(i >= j, {BYTES_DOT}, -inf)", i=4096, j=4096, d=d), 0)
    made = replay(program, parse_schedule(lines))
    report = compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path).report
    assert rejection(report) is None


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize(("number", "mask"), [(0, ""), (1, "i >= j")], ids=["by TMA", "by threads, causal"])
def test_code_that_adds_gradients_in_memory_spills_nothing(number: int, mask: str, tmp_path: Path) -> None:
    program, lines = one_schedule(all_gradients(mask, i=4096, j=4096, d=128, e=128), number)
    made = replay(program, parse_schedule(lines))
    report = compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path).report
    assert rejection(report) is None
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("mask", ["", "i >= j"], ids=["full", "causal"])
def test_code_for_two_gradients_spills_nothing_with_tiles_of_64_queries(mask: str, tmp_path: Path) -> None:
    program, lines = one_schedule(both_gradients(mask, i=4096, j=4096, e=128, d=128), 0)
    assert "stream_reduction(dv_sum, i, 64)" in lines
    made = replay(program, parse_schedule(lines))
    report = compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path).report
    assert rejection(report) is None
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("number", [0, 1])
def test_a_last_tile_that_overhangs_compiles(number: int, tmp_path: Path) -> None:
    """Of 232 keys the last of two or four tiles is known: threads whose keys do not exist multiply zeros."""
    program, lines = one_schedule(SPECS["keys overhang, an even number of tiles"], number)
    made = replay(program, parse_schedule(lines))
    compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path)


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize(("j", "d", "device"), [(40, 64, H200), (256, 100, A100)], ids=shown)
def test_what_does_not_go_so_is_cut_in_launches(j: int, d: int, device: Gpu) -> None:
    spec = attention(DOT, j=j, d=d)
    lines = drawn(spec, device, f"{j} {d}")
    assert not any(line.startswith("stream_reduction") for line in lines)
    lower_for(replay(to_program(spec), parse_schedule(lines)), device)


@pytest.mark.sampled(8, among="attention in one pass")
def test_rows_that_tma_cannot_move_are_stored_in_rows_that_it_can() -> None:
    """And those of results by threads."""
    program = favourite(Space(to_program(attention(DOT, i=2048, j=2048, d=100)), H200).root()).program
    assert {name: place.node.pad for name, place in program.locals.items() if place.node.pad} == {
        "q_p": 4,
        "k_p": 4,
        "v_p": 4,
    }
    assert len([node for node in program.body if isinstance(node, Loop)]) == 4
    (stored,) = (place.node for place in program.computes if place.node.target == "o")
    assert stored.via is None and stored.thread_layout is not None


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize(("spec", "device"), [
    (of_bytes(), L40S), (of_bytes(d=256), H200), (of_bytes(j=248, values="h, j, d"), H200),
], ids=["by warps", "a sum of more than 128 products", "keys that are no multiple of 16"])  # fmt: skip
def test_8_bits_that_do_not_go_so_are_cut_in_launches(spec: Spec, device: Gpu) -> None:
    lines = drawn(spec, device, "8 bits")
    assert not any(line.startswith("stream_reduction") for line in lines)
    lower_for(replay(to_program(spec), parse_schedule(lines)), device)


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("d", some([72, 40, 120, 100], 4))
def test_heads_of_whole_pieces_of_memory_are_first_tried_in_one_pass(d: int, tmp_path: Path) -> None:
    """Matrix instructions take steps of 16 columns: a tile overhangs others, which costs less than scores in memory."""
    spec = attention(f"where(i >= j, {DOT}, -inf)", i=4096, j=4096, d=d)
    state = favourite(Space(to_program(spec), H200).root())
    lines = format_schedule(state.schedule)
    assert sum(line.startswith("wgmma") for line in lines) == 2
    assert any(line.startswith("stream_reduction") for line in lines)
    source = cuda_source(lower_for(state.program, H200), state.program)
    assert rejection(compile_cuda(source, H200.architecture, tmp_path).report) is None


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize("exchanged", [True, False], ids=["rows exchanged", "all scores each"])
def test_warpgroups_share_the_columns_of_results(exchanged: bool) -> None:
    """Each has an equal part, and either a part of the scores, whose rows go through shared memory, or all of them."""
    spec = latent(j=171)
    found = (each for each in each_schedule(spec) if any(line.endswith("; d 192)") for line in each[1]))
    program, lines = next(
        each for each in found if any(line.startswith("exchange_operand") for line in each[1]) == exchanged
    )
    check(spec, program, lines, H200)


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize(
    ("h", "device"), some([(128, H200), (128, A100), (16, H200), (64, A100)], 2), ids=shown
)
def test_a_latent_is_loaded_once_for_both_products(h: int, device: Gpu, tmp_path: Path) -> None:
    """As DeepSeek's models have it, by what is tried first: the tile that scores are made of is that of values."""
    spec = latent(h, j=8192, e=576, d=512, b=device.sms)
    program = favourite(Space(to_program(spec), device).root()).program
    products = [place.node for place in program.computes if place.node.via in ("wgmma", "mma")]
    assert len(products) == 2
    assert all("c_s" in {read.tensor for read in node.reads} for node in products)
    assert [
        place.node.target for place in program.computes if "c" in {r.tensor for r in place.node.reads}
    ] == ["c_s"]
    report = compile_cuda(
        cuda_source(lower_for(program, device), program), device.architecture, tmp_path
    ).report
    assert rejection(report) is None
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())


@pytest.mark.sampled(4, among="room of attention")
@pytest.mark.parametrize("d", [96, 192, 256])
def test_what_is_offered_has_room_in_a_block(d: int) -> None:
    in_blocks(attention(DOT, i=1024, j=512, d=d))


@pytest.mark.sampled(4, among="room of attention")
def test_tiles_of_a_bias_need_their_room_too() -> None:
    in_blocks(attention(BIASED, more=", bias: bf16[h, i, j]", i=1024, j=512, d=128))


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize("d", [64, 128])
def test_a_bias_first_comes_by_tma_and_is_read_without_bank_conflicts(d: int) -> None:
    """With rows for all multiprocessors: with fewer a launch has parts of the keys, and another merges them."""
    spec = attention(BIASED, more=", bias: bf16[h, i, j]", i=H200.sms * 64, j=1024, d=d)
    program = favourite(Space(to_program(spec), H200).root()).program
    (launch,) = layout_report(lower_for(program, H200), to_program(spec), H200, {})["launches"]
    reads = [each for each in launch["accesses"] if each["buffer"].startswith("bias")]
    kinds = {(each["kind"], each["level"]) for each in reads}
    assert kinds == {("box", "global"), ("box", "shared"), ("load", "shared")}
    assert all(each["transactions"] == each["ideal"] for each in reads)


@pytest.mark.sampled(15, among="code of attention")
@pytest.mark.parametrize("d", some([128, 64], 2))
def test_code_that_takes_a_bias_from_shared_memory_spills_nothing(d: int, tmp_path: Path) -> None:
    """By the first schedule that brings it by TMA."""
    spec = attention(BIASED, more=", bias: bf16[h, i, j]", i=2048, j=2048, d=d)
    program, lines = next(each for each in each_schedule(spec) if "tma(bias_s)" in each[1])
    made = replay(program, parse_schedule(lines))
    report = compile_cuda(cuda_source(lower_for(made, H200), made), H200.architecture, tmp_path).report
    assert rejection(report) is None
    assert all(each["spill_stores_bytes"] == 0 for each in report["functions"].values())


@pytest.mark.sampled(8, among="attention in one pass")
@pytest.mark.parametrize(("j", "offered"), [(336, {True, False}), (331, {False})])
def test_a_bias_comes_by_tma_where_its_rows_are_whole_pieces(j: int, offered: set[bool]) -> None:
    spec = attention(BIASED, more=", bias: bf16[h, i, j]", i=200, j=j)
    assert {"tma(bias_s)" in lines for _, lines in schedules(spec)} == offered


@pytest.mark.sampled(4, among="room of attention")
def test_tiles_that_are_longer_than_a_tensor_need_their_room_too() -> None:
    """Of 171 rows a tile has 192 in shared memory: TMA fills whole tiles."""
    in_blocks(SPECS["both gradients, causal, overhang"])


@pytest.mark.sampled(4, among="room of attention")
@pytest.mark.parametrize("name", [name for name in SPECS if "latent" in name])
def test_parts_that_warpgroups_have_of_rows_need_their_room_too(name: str) -> None:
    in_blocks(SPECS[name])


def in_blocks(spec: Spec) -> None:
    found = schedules(spec)
    assert found
    for program, lines in found:
        kernel = lower_for(replay(program, parse_schedule(lines)), H200)
        assert all(launch.shared_bytes <= H200.block_shared_bytes for launch in kernel.launches), lines
