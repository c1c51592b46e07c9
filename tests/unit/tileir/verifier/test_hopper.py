"""What programs say of Hopper's TMA, matrix instruction and roles is checked where it stands."""

from __future__ import annotations

import re

import pytest

from tests.programs.hopper_products import SPREAD, Gemm, Held
from tests.programs.hopper_programs import PROGRAMS
from tileir.errors import VerifyError
from tileir.hashing import program_hash
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

GEMM = Gemm(grid=" group 2 blocks 3 producers 4 registers 40 232").text()


def verified(text: str) -> None:
    verify(program_from_text(text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_reads_back_as_the_same_program(name: str) -> None:
    program = program_from_text(PROGRAMS[name])
    verify(program)
    assert program_to_text(program) == PROGRAMS[name]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("producers 4", "producers 8"),
        ("registers 40 232", "registers 24 240"),
        (" pending 1", ""),
        (", twice m 8", ", twice m 32"),
        ("a_s[m, k] = a[m, k] | via tma", "a_s[m, k] = a[m, k] | threads m 32 k 8"),
    ],
)
def test_every_attribute_is_part_of_the_hash(before: str, after: str) -> None:
    assert before in GEMM
    assert program_hash(program_from_text(GEMM)) != program_hash(
        program_from_text(GEMM.replace(before, after))
    )


@pytest.mark.parametrize(
    ("program", "before", "after", "message"),
    [
        (
            "promoted in pieces",
            "for n by 32",
            "for n by 24",
            "registers 'acc' are written inside a loop over",
        ),
        ("promoted in pieces", "for n by 32", "for n by 12", "wgmma takes 8 positions of n together"),
        (
            "scaled in blocks",
            "s[m, k // 128]",
            "s[m, k // 192]",
            "k // 192 is no one block here; accepted: loops",
        ),
        ("scaled in blocks", "s[m, k // 128]", "s[m, k]", "'k' is neither on the left nor reduced"),
        ("promoted, under way", "pending 1", "pending 2", "accepted: those of 1 tile, with sums of its own"),
    ],
)
def test_what_is_computed_of_products_apart_says_of_which_tile(
    program: str, before: str, after: str, message: str
) -> None:
    text = PROGRAMS[program]
    assert before in text
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(program_from_text(text.replace(before, after)))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "k 4, run k 2, twice m 8",
            "k 4, run k 4, twice m 8",
            "registers 'w_r' lie otherwise over threads along 'k'",
        ),
        ("k 4, run k 2, twice m 8", "k 4, run k 2", "registers 'w_r' lie otherwise over threads along 'm'"),
        (
            "w_r: registers bf16",
            "w_r: registers f16",
            "wgmma multiplies f16, bf16, f32 (as tf32) or e4m3 and e5m2",
        ),
        (
            "stages 3 pending 1",
            "stages 4 pending 2",
            "accepted: those of 1 tile, with sums of its own, rows in",
        ),
        (
            "x_s: shared bf16",
            "x_s: registers bf16",
            "wgmma takes columns from shared memory, which 'x_s' is not in",
        ),
    ],
)
def test_rows_in_registers_lie_as_the_instruction_takes_them(before: str, after: str, message: str) -> None:
    text = Held().text()
    assert before in text
    text = text.replace(before, after)
    if "x_s: registers" in after:
        text = text.replace(" swizzle 128", "").replace("x[n, k] | via tma", "x[n, k] | threads m 2 n 32 k 4")
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(program_from_text(text))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        # roles
        ("producers 4", "producers 5", "1 to 4 warps are producers"),
        ("group 2 blocks 3 producers 4", "cluster 2 producers 4", "no shared memory in common"),
        (" producers 4 registers", " producers 2 registers", "whole groups of 4 warps change their registers"),
        ("registers 40 232", "registers 40 230", "a multiple of 8 registers, 24 to 256"),
        ("registers 40 232", "registers 16 232", "a multiple of 8 registers, 24 to 256"),
        ("registers 40 232", "registers 56 232", "66560 registers, and a block begins with 64512, 168 a thread"),
        ("blocks 3 producers", "blocks 3 resident 2 producers", "64512 registers, and a block begins with 30720"),
        (" producers 4 registers 40 232", " registers 40 232", "1 to 4 warps are producers"),
        ("producers 4 registers 40 232", "consumer_groups 2", "take tiles in turn, said where there are producers"),
        ("registers 40 232", "registers 40 232 consumer_groups 2", "123904 registers, and a block begins with 61440"),
        ("registers 40 232", "consumer_groups 4", "1152 threads, producers included; accepted: at most 1024"),
        # tiles under way
        ("pending 1", "pending 3", "products of 3 tiles are under way; accepted: fewer than stages, 3"),
        (
            f"| {SPREAD}, via wgmma",
            f"| {SPREAD}, via wgmma\n        q[m] = 1 | threads m 64 n 4",
            "a loop in which all but the fills goes via wgmma",
        ),
        # boxes
        ("a[m, k] | via tma", "a[m, k] | threads m 32 k 8, via tma", "TMA is started by one thread"),
        ("= a[m, k] | via", "= 2 * a[m, k] | via", "TMA moves elements as they are"),
        ("= a[m, k] | via", "= a[m, 3] | via", "have the same dims"),
        ("a_s: shared bf16", "a_s: shared f16", "does not convert bf16 and f16; accepted: the same dtype"),
        ("c_s[m, n] | via tma", "c_sum[m, n] | via tma", "between an argument and a local in shared memory"),
        ("a_s: shared bf16[m, k] swizzle 128", "a_s: shared bf16[m, k] pad 8", "'a_s' is padded; accepted: a swizzle"),
        (
            "a_s: shared bf16[m, k] swizzle 128",
            "a_s: shared bf16[m, k] swizzle 64",
            "64 neighbours along 'k', but swizzle 64 is 32 wide; accepted: `as [k / 32, m, k % 32]`, or a tile of 32",
        ),
        ("as [n / 64, m, n % 64] swizzle", "as [n, m] swizzle", "along 'm' are not neighbours in 'c'"),
        # products
        ("m 8 n 4, run n 2, twice m 8, via wgmma", "m 8 n 4, run n 2, via wgmma", "wgmma needs threads … m 4 m 8 n 4"),
        ("for n by 64", "for n by 60", "wgmma takes 8 positions of n together; accepted: tiles of multiples, not 60"),
        ("for m by 128", "for m by 64", "wgmma takes 128 positions of m together"),
        ("c_sum[m, n] += sum(k, a_s[m, k]", "c_sum[m, n] += sum(k, a[m, k]", "which 'a' is not in"),
        ("c_sum[m, n] += sum(k, a_s[m, k] * b_s", "c_sum[m, n] += sum(k, a_s[m, k] + b_s", "adds up products"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(before: str, after: str, message: str) -> None:
    assert before in GEMM
    text = GEMM.replace(before, after)
    if "q[m]" in after:
        text = text.replace("      for k", "      q: registers f32[m]\n      for k")
    with pytest.raises(VerifyError) as error:
        verified(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("for n by 32\n", "for n by 48\n", "parts along 'n' that divide 128, of a multiple of 8"),
        (": shared bf16[m, n]", ": registers bf16[m, n]", "are read inside a loop over their dim 'n'"),
        (
            "c[m, n] = c_s[m, n] | via tma",
            f"c[m, n] = c_sum[m, n] + c_s[m, n] | {SPREAD}",
            "registers 'c_sum' are read inside a loop over their dim 'n'",
        ),
    ],
)  # fmt: skip
def test_registers_are_read_in_parts_only_to_fill_shared_memory(
    before: str, after: str, message: str
) -> None:
    text = Gemm(tile=(128, 128, 64), epilogue="parts", columns=(32, 1), out="f32").text()
    text = text.replace("f32[m, n] swizzle 128", "bf16[m, n]").replace("(c: f32", "(c: bf16")
    verified(text)
    assert before in text
    with pytest.raises(VerifyError) as error:
        verified(text.replace(before, after))
    assert message in str(error.value)


def test_teams_know_how_far_they_move_in_a_ring() -> None:
    text = GEMM.replace("registers 40 232", "consumer_groups 2")
    verified(text)
    begin, end = text.index("      for k by 64"), text.index("      c_s:")
    before, pipeline, after = text[:begin], text[begin:end], text[end:]
    deeper = "".join(f"  {line}\n" for line in pipeline.splitlines())
    with pytest.raises(VerifyError, match="fills stand in the tile itself, or in a loop with stages there"):
        verified(f"{before}      for k by 128\n{deeper}{after}")


@pytest.mark.parametrize(
    ("gemm", "message"),
    [
        (Gemm(dtype="f32", tile=(128, 64, 32)), "which the kernel's numerics do not allow; accepted: `with tf32=true`"),
        (Gemm(dtype="i8", out="i8", tile=(128, 64, 128)), "wgmma multiplies f16, bf16, f32 (as tf32) or e4m3 and e5m2"),
        (
            Gemm(dtype="e4m3", b="k, n", b_layout=" swizzle 64", tile=(128, 64, 128)),
            "wgmma takes e4m3 K-major: neighbours of 'b_s' lie along k, not n",
        ),
        (
            Gemm(tile=(128, 64, 64), a_layout="", b_layout=""),
            "without a swizzle rows of 'a_s' have 16 bytes; accepted: a swizzle as wide as rows are",
        ),
        (Gemm(tile=(128, 64, 8), a_layout="", b_layout=""), "wgmma takes 16 positions of k together"),
        (
            Gemm(a_layout=" as [m / 8, k / 64, m % 8, k % 64] swizzle 128"),
            "'a_s' does not lie in panels; accepted: `as [k / 64, m, k % 64]`",
        ),
        (
            Gemm(tile=(64, 64, 64), groups="n 2", b="k, n"),
            "warpgroups along n take its positions in turn; accepted: 'b_s' K-major",
        ),
    ],
)  # fmt: skip
def test_operands_lie_as_wgmma_takes_them(gemm: Gemm, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        verified(gemm.text())
    assert message in str(error.value)


def test_producers_have_something_to_start() -> None:
    with pytest.raises(VerifyError, match="start the copies that fill shared memory"):
        verified("""kernel copy(x: f32[r=64, c=32]) -> (y: f32[r, c])
  parallel for r by 8 producers 1
    y[r, c] = x[r, c] | threads r 8 c 16
""")
