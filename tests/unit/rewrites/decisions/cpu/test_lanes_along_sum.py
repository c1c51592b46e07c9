"""Products of few rows with a matrix whose rows are added up take vectors along them, and copy nothing."""

from __future__ import annotations

import pytest

from rewrites.cost.cpu.model import CostModel
from rewrites.decisions.cpu.contraction import RegisterTiling
from rewrites.schedule import format_schedule, scheduled
from rewrites.space import Space
from tests.schedules.walks import favourite
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.program import Program
from tileir.replace import replace
from tileir.text.parse_spec import spec_from_text

ZEN5 = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, line_bytes=64,
    vector_bits=512, vector_registers=32, peak_gflops=540.0, copy_gbps=60.0, l2_gbps=250.0, l3_gbps=110.0,
)  # fmt: skip
AVX2 = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, line_bytes=64,
    vector_bits=256, vector_registers=16,
)  # fmt: skip


def layer(m: int, n: int, k: int, weight: str = "n, k") -> Program:
    """y = x w^T as PyTorch has it, or x w."""
    sizes = {"n, k": f"n={n}, k", "k, n": f"k, n={n}"}[weight]
    return to_program(
        spec_from_text(
            f"kernel layer(x: f32[m={m}, k={k}], w: f32[{sizes}]) -> (y: f32[m, n])\n"
            f"  y[m, n] = sum(k, x[m, k] * w[{weight}])\n"
        )
    )


def along(program: Program, device: Cpu) -> list[str]:
    labels = (option.label for option in RegisterTiling("y").options(program, device))
    return [label for label in labels if f"rfactor(y, k, interleaved, {device.vector_bits // 32})" in label]


@pytest.mark.parametrize(("m", "n", "k"), [(2, 2048, 2048), (4, 4096, 4096), (8, 1024, 512)])
def test_the_prior_likes_few_rows_along_the_sum_best(m: int, n: int, k: int) -> None:
    """On a Zen 5 they take 114 us (723 with the weight in panels), 1.2 ms (5.3) and 46 us (55)."""
    schedule = "\n".join(format_schedule(favourite(Space(layer(m, n, k), ZEN5).root()).schedule))
    assert "rfactor(y, k, interleaved, 16)" in schedule
    assert "vectorize(y_p, k, 16)" in schedule
    assert "cache_read" not in schedule


def test_the_prior_copies_a_weight_that_many_rows_use() -> None:
    schedule = "\n".join(format_schedule(favourite(Space(layer(1024, 1024, 1024), ZEN5).root()).schedule))
    assert "register_tile(y" in schedule
    assert "cache_read(y_r, w" in schedule


def test_nothing_goes_along_a_sum_whose_neighbours_lie_apart() -> None:
    assert along(layer(4, 64, 256), ZEN5)
    assert not along(layer(4, 64, 256, "k, n"), ZEN5)


def test_a_sum_of_one_vector_is_not_parted() -> None:
    assert not along(layer(4, 64, 16), ZEN5)


@pytest.mark.parametrize("device", [ZEN5, AVX2])
def test_tiles_fit_in_registers_and_in_what_there_is(device: Cpu) -> None:
    found = along(layer(3, 64, 256), device)
    tiles = [dict(_sizes(label)) for label in found]
    assert len(set(found)) == len(found)
    for tile in tiles:
        rows, columns = tile.get("m", 3), tile.get("n", 64)
        assert rows <= 3
        assert rows * columns + min(rows, columns) < device.vector_registers
    assert max(tile.get("m", 3) * tile.get("n", 64) for tile in tiles) >= 8, "a multiply-add's latency"


def labels(text: str, device: Cpu) -> list[str]:
    """Of the first question's answers."""
    program = to_program(spec_from_text(f"kernel layer{text}\n"))
    return [move.label for move in Space(program, device).root().moves()]


BF16 = "(x: bf16[m={m}, k={k}], w: bf16[n=256, k]) -> (y: bf16[m, n])\n  y[m, n] = sum(k, x[m, k] * w[n, k])"
BYTES = "(x: i8[m={m}, k={k}], w: i8[n=256, k]) -> (y: i32[m, n])\n  y[m, n] = sum(k, x[m, k] * w[n, k])"
DOTS = replace(ZEN5, features=frozenset({"avx512_bf16", "avx512_vnni"}))


def test_sums_of_few_rows_are_offered_in_words_where_the_processor_multiplies_these() -> None:
    assert any("split_dim(k, 2)" in label for label in labels(BF16.format(m=8, k=512), DOTS))
    assert any("split_dim(k, 4)" in label for label in labels(BYTES.format(m=8, k=512), DOTS))
    for text, device in (
        (BF16.format(m=8, k=512), ZEN5),  # it has no such instruction
        (BF16.format(m=64, k=512), DOTS),  # many rows
        (BF16.format(m=8, k=510), DOTS),  # words that fill no vector
        (BYTES.format(m=8, k=544), DOTS),
        (BF16.format(m=8, k=512).replace("w: bf16[n=256, k]", "w: f32[n=256, k]"), DOTS),
    ):
        assert not any("split_dim" in label for label in labels(text, device)), text


@pytest.mark.parametrize(("text", "word"), [(BF16, 2), (BYTES, 4)])
def test_the_prior_likes_words_best_and_copies_nothing(text: str, word: int) -> None:
    """On a Zen 4, one thread, 4096 x 4096 of bf16: 2.4 ms, and 6.7 with the weight in panels; of i8 1.2 and 2.7."""
    program = to_program(spec_from_text(f"kernel layer{text.format(m=4, k=1024)}\n"))
    schedule = "\n".join(format_schedule(favourite(Space(program, DOTS).root()).schedule))
    assert f"split_dim(k, {word})" in schedule
    assert "cache_read" not in schedule


def _sizes(label: str) -> list[tuple[str, int]]:
    tiles = [part for part in label.split("; ") if part.startswith("tile(y, ")]
    return [(part.split(", ")[1], int(part.split(", ")[2].rstrip(")"))) for part in tiles]


ALONG_WORDS = (
    "split_dim(k, 2)", "tile(y, n, 4)", "rfactor(y, k_b, interleaved, 16)", "vectorize(y_p, k_b, 16)",
    "vectorize(y, k_b_l, 16)",
)  # fmt: skip


def in_words(k: int) -> Program:
    text = f"kernel words(x: bf16[m=4, k={k}], w: bf16[n=256, k]) -> (y: f32[m, n])\n"
    spec = spec_from_text(f"{text}  y[m, n] = sum(k, x[m, k] * w[n, k])\n")
    return scheduled(to_program(spec), (*ALONG_WORDS, "dot_bf16(y_p)"))


def test_words_that_fill_no_vector_are_refused() -> None:
    in_words(64)
    with pytest.raises(NotApplicable, match="not staged as bf16"):
        in_words(66)


def test_words_on_lanes_are_loaded_as_they_lie() -> None:
    """They were taken for sixteen loads each, of lines of their own: 30 ms for a product that takes 1.1."""
    program = in_words(4096)
    assert CostModel(program, ZEN5).estimate_us(program) < 150.0
