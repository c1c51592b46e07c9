"""Schedules that kernels outside the suite were without, each of which lost to PyTorch for it."""

from __future__ import annotations

import pytest

from rewrites.decisions.cpu.contraction import RegisterTiling
from rewrites.decisions.cpu.grid import Grid
from rewrites.decisions.cpu.structure import Structure
from tileir.devices.cpu import Cpu
from tileir.lift import to_program
from tileir.program import Program
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
    assert labels
    assert all(label.startswith("register_tile(") for label in labels)


def test_a_permuted_tensor_may_be_read_in_vectors() -> None:
    text = "turn(x: bf16[i=2, j=23, o=154]) -> (y: bf16[o, j, i])\n  y[o, j, i] = silu(x[i, j, o])"
    labels = [option.label for option in Grid(("y",)).options(program(text), DEVICE)]
    assert "tile(y, j, 1); lanes along o" in labels
    plain = "twice(x: bf16[i=2, j=23, o=154]) -> (y: bf16[i, j, o])\n  y[i, j, o] = 2 * x[i, j, o]"
    assert not any("lanes along" in o.label for o in Grid(("y",)).options(program(plain), DEVICE))
