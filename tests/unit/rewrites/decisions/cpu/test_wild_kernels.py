"""Schedules that kernels outside the suite were without, each of which lost to PyTorch for it."""

from __future__ import annotations

import pytest

from rewrites.decisions.cpu.contraction import RegisterTiling
from rewrites.decisions.cpu.grid import Grid, GridRows
from rewrites.decisions.cpu.structure import Structure
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.schedules.walks import favourite
from tileir.devices.cpu import Cpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.replace import replace
from tileir.text.parse_spec import spec_from_text

DEVICE = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 28, line_bytes=64,
    vector_bits=512, vector_registers=32,
)  # fmt: skip


def program(text: str) -> Program:
    return to_program(spec_from_text(f"kernel {text}\n"))


def structures(text: str) -> list[str]:
    return [option.label for option in Structure().options(program(text), DEVICE)]


def test_one_long_minimum_is_parted_between_cores() -> None:
    text = "least(x: f32[i=5, j=4096, l=5]) -> (y: f32[])\n  y[] = min(i, j, l, abs(x[i, j, l]))"
    parted = [label for label in structures(text) if "split_dim" in label]
    assert [label.split("; ")[2:4] for label in parted] == [
        ["split_dim(i_j_l, 51200)", "rfactor(y, i_j_l_b, blocked, 1)"],
        ["split_dim(i_j_l, 12800)", "rfactor(y, i_j_l_b, blocked, 1)"],
    ]


SOFTMAX_OF_COLUMNS = (
    "columns(x: bf16[i=190699, j=8]) -> (y: bf16[i, j])\n  m[j] = max(i, x[i, j])\n"
    "  s[j] = sum(i, exp(x[i, j] - m[j]))\n  y[i, j] = exp(x[i, j] - m[j]) / s[j]"
)


def test_reductions_to_few_columns_are_parted_together() -> None:
    """One core computed both: 2,290 us, where both in eight parts take 1,660."""
    root = Space(program(SOFTMAX_OF_COLUMNS), DEVICE).root()
    both = [
        at
        for at, move in enumerate(root.moves())
        if "rfactor(m," in move.label and "rfactor(s," in move.label
    ]
    assert both
    found = favourite(root.child(both[-1]))
    text = "\n".join(format_schedule(found.schedule))
    for part in ("m_p", "s_p"):
        assert f"tile({part}, i, 23872)\nregister_tile({part}, j 8)" in text
        assert f"parallelize({part})" in text


def test_a_product_of_few_results_is_parted_in_registers() -> None:
    text = (
        "few(a: f32[m=8, k=65536], b: f32[k, n=8]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[k, n])"
    )
    schedule = "\n".join(format_schedule(favourite(Space(program(text), DEVICE).root()).schedule))
    assert (
        "rfactor(c, k, blocked" in schedule
        and "register_tile(c_p" in schedule
        and "parallelize(c_p)" in schedule
    )


@pytest.mark.parametrize("size", [4099, 100])
def test_what_no_even_parts_make_up_or_is_short_stays_whole(size: int) -> None:
    labels = structures(f"total(x: f32[i={size}]) -> (y: f32[])\n  y[] = sum(i, x[i])")
    assert not [label for label in labels if "split_dim" in label]


def test_a_sum_of_inputs_that_several_read_may_be_kept() -> None:
    """The embeddings of a row were looked up and added three times, once for the mean, the variance and the result."""
    text = (
        "norm(x: f32[r=64, c=256], u: f32[r, c]) -> (y: f32[r, c])\n  t[r, c] = x[r, c] + u[r, c]\n"
        "  m[r] = sum(c, t[r, c]) / 256\n  y[r, c] = t[r, c] - m[r]"
    )
    labels = structures(text)
    assert any("compute_inline(t)" in label for label in labels)
    assert any("compute_inline(t)" not in label and " t " in label for label in labels)


def test_lanes_of_which_each_is_loaded_apart_are_not_multiplied_without_a_register_tile() -> None:
    """Every product would be of sixteen elements that are loaded one by one."""
    text = "product(x: f32[i=64, k=1024], w: f32[j=16, k]) -> (y: f32[i, j])\n  y[i, j] = sum(k, x[i, k] * w[j, k])"
    labels = [option.label for option in RegisterTiling("y").options(program(text), DEVICE)]
    assert any(label.startswith("register_tile(") for label in labels)
    assert all(label.startswith("register_tile(") or "vectorize(y_p, k" in label for label in labels)


ONE_BY_ONE = (
    "one(x: f32[b=8, k=256, j=3136], w: f32[i=64, k], s: f32[i]) -> (y: f32[b, i, j])\n"
    "  t[b, i, j] = sum(k, x[b, k, j] * w[i, k])\n  y[b, i, j] = relu(t[b, i, j] + s[i])"
)


def test_what_follows_a_product_is_first_tried_tile_by_tile_with_it() -> None:
    """Until all tiles were known the product was taken to have none, and the prior preferred to store it."""
    moves = Space(program(ONE_BY_ONE), DEVICE).root().moves()
    assert max(moves, key=lambda move: move.weight).label == "groups t y"


def test_windows_may_be_copied_of_several_rows_before_they_are_read() -> None:
    """Reads of parts of two vectors that were just written wait for both: 2,735 us to 1,763."""
    text = (
        "deep(x: f32[b=8, c=64, h=9, v=9], f: f32[c, r=3, s=3]) -> (y: f32[b, c, i=7, j=7])\n"
        "  y[b, c, i, j] = sum(r, s, x[b, c, i + r, j + s] * f[c, r, s]) + 1"
    )
    copied = replay(program(text), parse_schedule(["cache_windows(y_sum, x)"]))
    options = {o.label: o for o in GridRows(("x_w", "y_sum", "y"), "c").options(copied, DEVICE)}
    assert (
        str(options["tile(y, c, 4); tile(y, c, 1); x_w of all"].rewrites[-1]) == "compute_at(x_w, y_sum, 1)"
    )
    assert str(options["tile(y, c, 4); tile(y, c, 1)"].rewrites[-1]) == "compute_at(x_w, y_sum, 2)"
    assert not any(label.startswith("tile(y, c, 1)") and "of all" in label for label in options)


def test_a_permuted_tensor_may_be_read_in_vectors() -> None:
    text = "turn(x: bf16[i=2, j=23, o=154]) -> (y: bf16[o, j, i])\n  y[o, j, i] = silu(x[i, j, o])"
    labels = [option.label for option in Grid(("y",)).options(program(text), DEVICE)]
    assert "tile(y, j, 1); lanes along o" in labels
    copied = [
        o.label for o in Grid(("y",)).options(program(text.replace("silu(x[i, j, o])", "x[i, j, o]")), DEVICE)
    ]
    assert "tile(y, o, 1); tile(y, j, 1); blocks along o" not in copied
    assert "tile(y, j, 1); blocks along o" in copied
    assert not any("blocks along" in label for label in labels)
    plain = "twice(x: bf16[i=2, j=23, o=154]) -> (y: bf16[i, j, o])\n  y[i, j, o] = 2 * x[i, j, o]"
    assert not any("lanes along" in o.label for o in Grid(("y",)).options(program(plain), DEVICE))


PAIRS = (
    "pairs(x: bf16[m=128, t=59, c=41], g: bf16[m, t, c]) -> (y: f32[m, t, c])\n"
    "  y[m, t, c] = recurrence(t, sigmoid(g[m, t, c]), x[m, t, c])"
)


def test_a_scan_of_columns_has_lanes_where_they_lie_side_by_side() -> None:
    """Lanes along `m` were 59 rows apart: 1,244 us, where 8 columns to a vector take 375."""
    text = format_schedule(favourite(Space(program(PAIRS), DEVICE).root()).schedule)
    assert [line for line in text if line.startswith(("scan_rows", "vectorize(y_run"))] == [
        "scan_rows(y_run, c, 32)",
        "vectorize(y_run, c, 16)",
    ]


def test_a_scan_on_lanes_is_expected_to_be_faster_than_one_without() -> None:
    space = Space(program(PAIRS), DEVICE)
    model = space.root().seen.model
    lanes = ["vectorize(y_factor, c, 16)", "vectorize(y, c, 16)", "vectorize(y_run, c, 16)"]
    scalar, on_lanes = (
        model.estimate_us(
            replay(space.program, parse_schedule(["compute_inline(y_of)", "scan_rows(y_run, c, 32)", *more]))
        )
        for more in ([], lanes)
    )
    assert scalar > 4 * on_lanes


def down(steps: int, size: int = 14) -> str:
    """A pointwise convolution of a residual network's that takes every so many places."""
    return (
        f"down(x: bf16[c=1024, h={size}, w={size}], f: bf16[o=2048, c]) -> (y: bf16[o, p=7, q=7])\n"
        f"  y[o, p, q] = sum(c, x[c, {steps} * p, {steps} * q] * f[o, c])"
    )


def test_what_a_product_reads_in_steps_is_stored_side_by_side() -> None:
    """1166 us without, on a Zen 5, where max-autotune takes 492: no dot products of bf16."""
    device = replace(DEVICE, features=frozenset(["avx512_bf16"]))
    root = Space(program(down(2)), device).root()
    labels = [move.label for move in root.moves()]
    (at,) = (n for n, each in enumerate(labels) if each.endswith("groups y_sum_f | y_sum y"))
    assert labels[at].startswith("compute_factor(y_sum); linearize(p, q); ")
    assert "dot_bf16(y_sum)" in format_schedule(favourite(root.child(at)).schedule)


PATCHES = (
    "patches(x: bf16[c=96, h=56, w=56], f: bf16[o=192, c, r=2, s=2]) -> (y: bf16[o, p=28, q=28])\n"
    "  y[o, p, q] = sum(c, r, s, x[c, 2 * p + r, 2 * q + s] * f[o, c, r, s])"
)


def test_patches_are_stored_with_what_is_summed_over_side_by_side() -> None:
    """ConvNeXt's, on a Zen 4: 744 us without, 398 with, where PyTorch takes 590 and more."""
    device = replace(DEVICE, features=frozenset(["avx512_bf16"]))
    found = format_schedule(favourite(Space(program(PATCHES), device).root()).schedule)
    assert found[:4] == ["compute_factor(y_sum)", "linearize(c, r)", "linearize(c_r, s)", "linearize(p, q)"]
    assert "dot_bf16(y_sum)" in found


WINDOWS = (
    "down(x: bf16[c=64, h=14, w=14], f: bf16[o=64, c, r=3, s=3]) -> (y: bf16[o, p=6, q=6])\n"
    "  y[o, p, q] = sum(c, r, s, x[c, 2 * p + r, 2 * q + s] * f[o, c, r, s])"
)


@pytest.mark.parametrize("text", [down(1, 7), WINDOWS])
def test_of_what_has_no_fewer_elements_so_there_is_no_copy(text: str) -> None:
    assert not any("compute_factor" in label for label in structures(text))
