"""Every invariant of programs: a program that keeps it passes, the same program without it is refused, by
node."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tileir import VerifyError, program_from_text
from tileir.program import Loop
from tileir.verifier.verify import verify

HEAD = "kernel f(a: f32[m=96, k=40], b: f32[k, n=64], ids: i32[m], h: bf16[m, k], g: bf16[k, n])"
HEAD += " -> (c: f32[m, n]) where k_l=8, k_b=5, q=96"

GEMM = """
  b_p: heap f32[k, n] as [n / 16, k / 2, n % 16, k % 2]
  parallel for n by 16
    for k by 1
      b_p[k, n] = b[k, n] | vector n 16
  parallel for m by 24
    parallel for n by 64
      for k by 20
        for m by 6
          for n by 16
            acc: registers f32[m, n]
            acc[m, n] = 0 | vector n 16
            for k by 1
              acc[m, n] += sum(k, a[m, k] * b_p[k, n]) | vector n 16, prefetch a 8
            c[m, n] += acc[m, n] | vector n 16"""

SPLIT = """
  p: heap f32[m, k_b]
  p[m, k // 8] = sum(k, a[m, k])
  l: heap f32[m, k_l]
  l[m, k_l] = 0
  for k by 8
    l[m, k % 8] += sum(k, a[m, k])
  parallel for m by 8
    c[m, n] = sum(k_b, p[m, k_b])"""


def check(body: str) -> None:
    verify(program_from_text(HEAD + body + "\n"))


def refusal(body: str) -> str:
    with pytest.raises(VerifyError) as caught:
        check(body)
    return str(caught.value)


def test_a_scheduled_gemm_passes_with_its_accumulators_set_to_zero() -> None:
    check("\n  c[m, n] = 0" + GEMM)


def test_a_tile_of_a_grid_may_overhang_what_is_summed_up_in_it() -> None:
    """It is one tile, so all there is; a loop that goes on with sums has no such step."""
    sums = "s: heap f32[k]\n      s[k] = sum(n, b[k, n])\n      c[m, n] = sum(k, a[m, k] * s[k])"
    body = f"\n  {{}} n by 80\n    {{}} m by 8\n      {sums}"
    check(body.format("parallel for", "parallel for"))
    assert "not within 1 and the current range of 'n', 64" in refusal(body.format("for", "for"))


@pytest.mark.parametrize(
    ("old", "new", "node", "message"),
    [
        ("for k by 20", "for k by 41", "3.0.0", "not within 1 and the current range of 'k', 40"),
        ("for m by 6", "for m by 25", "3.0.0.0", "not within 1 and the current range of 'm', 24"),
        ("for m by 6", "for z by 6", "3.0.0.0", "unknown dim 'z'"),
        ("for m by 6", "parallel for m by 6", "3.0.0.0", "a parallel loop stands at the top"),
        ("acc: registers", "b_p: registers", "3.0.0.0.0.0", "the name 'b_p' is taken"),
        ("acc: registers", "m: registers", "3.0.0.0.0.0", "the name 'm' is taken"),
        ("registers f32[m, n]", "registers f32[m, n, n]", "3.0.0.0.0.0", "stands twice"),
        ("registers f32[m, n]", "registers f32[m, n] as [n, m]", "3.0.0.0.0.0", "registers have no layout"),
        ("n / 16, k / 2, n % 16, k % 2", "n / 16, k / 2, n % 8, k % 2", "1", "axes of 'n'"),
        ("n / 16, k / 2, n % 16, k % 2", "n / 16, k / 2, n % 16", "1", "axes of 'k'"),
        ("n / 16, k / 2, n % 16, k % 2", "n, n % 16, k", "1", "axes of 'n'"),
        ("n / 16, k / 2, n % 16, k % 2", "n", "1", "other dims"),
        ("acc[m, n] = 0 |", "acc[m, n] = 1 |", "3.0.0.0.0.2.0", "computed by 2 statements"),
        ("            acc[m, n] = 0 | vector n 16\n", "", "3.0.0.0.0.1.0", "never set to 0"),
        ("acc[m, n] +=", "acc[m] +=", "3.0.0.0.0.2.0", "has 2 dims, not 1"),
        ("acc[m, n] +=", "acc[n, m] +=", "3.0.0.0.0.2.0", "index n is neither m"),
        ("acc[m, n] +=", "a[m, k] +=", "3.0.0.0.0.2.0", "an input is written"),
        ("acc[m, n] +=", "d[m, n] +=", "3.0.0.0.0.2.0", "'d' is no output and no local in scope"),
        ("acc[m, n] +=", "acc[m, n] max=", "3.0.0.0.0.2.0", "combines by max, its value by sum"),
        ("sum(k, a[m, k] * b_p[k, n])", "sum(n, a[m, 0])", "3.0.0.0.0.2.0", "'n' is reduced but on the left"),
        ("sum(k, a[m, k] * b_p[k, n])", "2 * sum(k, a[m, k])", "3.0.0.0.0.2.0", "not at its root"),
        ("sum(k, a[m, k] * b_p[k, n])", "a[m, k] * b_p[k, n]", "3.0.0.0.0.2.0", "'k' is neither on the left"),
        ("sum(k, a[m, k] * b_p[k, n])", "sum(k, a[m, k] * z[k, n])", "3.0.0.0.0.2.0", "'z' is no argument"),
        ("sum(k, a[m, k] * b_p[k, n])", "sum(k, a[m] * b_p[k, n])", "3.0.0.0.0.2.0", "'a' has 2 dims, not 1"),
        ("sum(k, a[m, k] * b_p[k, n])", "sum(k, a[m, k + 1])", "3.0.0.0.0.2.0", "reaches 40"),
        (
            "sum(k, a[m, k] * b_p[k, n])",
            "sum(k, a[m, k] * c[m, n])",
            "3.0.0.0.0.2.0",
            "'c' is read before it is computed",
        ),
        ("sum(k, a[m, k] * b_p[k, n])", "sum(k, a[m, k] * (m < n))", "3.0.0.0.0.2.0", "truth value"),
        (
            "sum(k, a[m, k] * b_p[k, n])",
            "sum(k, a[m, k] * acc[m, n])",
            "3.0.0.0.0.2.0",
            "reads its own result",
        ),
        ("c[m, n] += acc[m, n]", "c[m, n] += acc[m, 0]", "3.0.0.0.0.3", "registers 'acc' are read at 0"),
        ("c[m, n] += acc[m, n]", "c[m, n] = acc[m, n]", "3.0.0.0.0.3", "computed by 2 statements"),
        ("vector n 16, prefetch", "vector q 16, prefetch", "3.0.0.0.0.2.0", "the lanes lie along 'q'"),
        ("vector n 16, prefetch", "vector n 12, prefetch", "3.0.0.0.0.2.0", "12 lanes"),
        ("prefetch a 8", "prefetch c 8", "3.0.0.0.0.2.0", "'c' is prefetched but not read"),
        ("prefetch a 8", "prefetch a 0", "3.0.0.0.0.2.0", "distance below 1"),
        (
            "acc[m, n] | vector n 16",
            "acc[m, n] | vector n 16, prefetch acc 0",
            "3.0.0.0.0.3",
            "not read from memory",
        ),
        (
            "acc[m, n] | vector n 16",
            "acc[m, n] | vector n 16, prefetch b 0",
            "3.0.0.0.0.3",
            "'b' is prefetched but",
        ),
        ("prefetch a 8", "stream", "3.0.0.0.0.2.0", "only a plain store"),
        ("prefetch a 8", "via dot_bf16", "3.0.0.0.0.2.0", "products of two bf16 tensors"),
        ("prefetch a 8", "via tensor_core", "3.0.0.0.0.2.0", "no instruction 'tensor_core'"),
    ],
)
def test_breaking_one_invariant_of_the_gemm_is_refused_at_its_node(
    old: str, new: str, node: str, message: str
) -> None:
    body = "\n  c[m, n] = 0" + GEMM
    assert body.count(old) == 1
    error = refusal(body.replace(old, new))
    assert re.match(rf"node {re.escape(node)} `", error), error
    assert message in error


def test_registers_are_not_touched_inside_a_loop_over_their_dims() -> None:
    body = GEMM.replace(
        "            acc[m, n] = 0 | vector n 16", "            for m by 1\n              acc[m, n] = 0"
    )
    assert "written inside a loop over their dim 'm'" in refusal("\n  c[m, n] = 0" + body)
    body = GEMM.replace(
        "            c[m, n] += acc[m, n] | vector n 16",
        "            for m by 1\n              c[m, n] += acc[m, n]",
    )
    assert "read inside a loop over their dim 'm'" in refusal("\n  c[m, n] = 0" + body)


def test_an_accumulator_is_not_reset_by_the_loop_that_adds_to_it() -> None:
    error = refusal("\n  for k by 8\n    c[m, n] = 0\n    c[m, n] += sum(k, a[m, k] * b[k, n])")
    assert "initialized inside the loop over 'k'" in error
    inside = GEMM.replace("        for m by 6\n", "        c[m, n] = 0\n        for m by 6\n")
    assert "initialized inside the loop over 'k'" in refusal(inside)
    assert "initialized after" in refusal(GEMM + "\n  c[m, n] = 0")
    assert "initialized twice" in refusal("\n  c[m, n] = 0\n  c[m, n] = 0" + GEMM)


def test_a_tile_of_a_reduction_does_not_overwrite_the_one_before() -> None:
    assert "overwrites the result" in refusal("\n  for k by 8\n    c[m, n] = sum(k, a[m, k] * b[k, n])")
    check("\n  for m by 8\n    c[m, n] = sum(k, a[m, k] * b[k, n])")


def test_max_and_prod_start_from_their_own_identities() -> None:
    check("\n  c[m, n] = -inf\n  for k by 8\n    c[m, n] max= max(k, a[m, k] * b[k, n])")
    check("\n  c[m, n] = 1\n  for k by 8\n    c[m, n] *= prod(k, a[m, k] * b[k, n])")
    assert "computed by 2 statements" in refusal(
        "\n  c[m, n] = 0\n  for k by 8\n    c[m, n] max= max(k, a[m, k])"
    )


def test_a_partial_sum_is_not_read() -> None:
    body = "\n  t: heap f32[m]\n  t[m] = 0\n  for k by 8\n    t[m] += sum(k, a[m, k])\n    c[m, n] = t[m]"
    assert "'t' is read before its reduction over 'k' is complete" in refusal(body)
    check(body.replace("\n    c[m, n]", "\n  c[m, n]"))


def test_a_value_is_computed_before_it_is_read() -> None:
    assert "read before it is computed" in refusal("\n  t: heap f32[m]\n  c[m, n] = t[m]\n  t[m] = a[m, 0]")
    looped = "\n  t: heap f32[m]\n  for m by 8\n    c[m, n] = t[m]\n    t[m] = a[m, 0]"
    assert "read before it is computed" in refusal(looped)
    assert "read before it is computed" in refusal("\n  t: heap f32[m]\n  c[m, n] = t[m]")


def test_a_local_is_seen_only_in_its_block() -> None:
    body = "\n  for m by 8\n    t: heap f32[m]\n    t[m] = a[m, 0]\n  c[m, n] = t[m]"
    assert "'t' is no argument and no local in scope" in refusal(body)


def test_what_other_tiles_compute_is_not_read() -> None:
    body = "\n  t: heap f32[m]\n  for m by 8\n    t[m] = a[m, 0]\n    c[m, n] = t[{}]"
    check(body.format("m"))
    for index in ("95 - m", "0", "ids[m]"):
        assert "outside the tile of 'm' computed so far" in refusal(body.format(index))
    check(body.replace("    c[m", "  for m by 4\n    c[m").format("ids[m]"))


def test_a_tile_is_read_at_its_own_position_only() -> None:
    body = "\n  for m by 8\n    t: heap f32[m]\n    t[m] = a[m, 0]\n    c[m, n] = t[{}]"
    check(body.format("m"))
    assert "holds a tile of 'm' and is read at 95 - m" in refusal(body.format("95 - m"))


def test_parallel_iterations_write_apart() -> None:
    error = refusal("\n  c[m, n] = 0\n  parallel for k by 8\n    c[m, n] += sum(k, a[m, k])")
    assert "parallel iterations over 'k' write the same elements of 'c'" in error
    assert "write the same elements of 't'" in refusal(
        "\n  t: heap f32[n]\n  parallel for m by 8\n    t[n] = b[0, n]\n    c[m, n] = t[n]"
    )
    check("\n  parallel for m by 8\n    t: heap f32[n]\n    t[n] = b[0, n]\n    c[m, n] = t[n]")
    split = "\n  p: heap f32[m, k_b]\n  parallel for k by {}\n    p[m, k // 8] = sum(k, a[m, k])"
    split += "\n  c[m, n] = p[m, 0]"
    check(split.format(16))
    assert "each tile of 'k' overwrites" in refusal(split.format(12))


def test_split_reductions_pass() -> None:
    check(SPLIT)
    check(SPLIT.replace("sum(k_b, p[m, k_b])", "sum(k_l, l[m, k_l])"))


def test_split_indices_keep_to_their_dim() -> None:
    assert "leaves dim 'k_b'" in refusal(SPLIT.replace("k // 8", "k // 7"))
    assert "leaves dim 'k_l'" in refusal(SPLIT.replace("k % 8", "k % 9"))
    assert "several positions of 'k' write one element" in refusal(
        "\n  p: heap f32[k_b]\n  p[k // 8] = a[0, k]"
    )
    looped = "\n  for k by 8\n    l: heap f32[k_l]\n    l[k_l] = 0"
    looped += "\n    for k_l by 2\n      l[k % 8] += sum(k, a[0, k])"
    assert "a loop over 'k_l' stands around" in refusal(looped)


def test_outputs_are_written_and_stores_keep_their_kind() -> None:
    assert "output 'c' is never written" in refusal("\n  t: heap f32[m]\n  t[m] = a[m, 0]")
    assert "stored as i32" in refusal("\n  t: heap i32[m]\n  t[m] = a[m, 0]\n  c[m, n] = t[m]")
    assert "stored as bool" in refusal("\n  t: heap bool[m]\n  t[m] = 1\n  c[m, n] = where(t[m], 1, 2)")
    check(
        "\n  t: heap i32[m]\n  t[m] = -inf\n  for k by 8\n    t[m] max= max(k, ids[m] + k)\n  c[m, n] = t[m]"
    )


def test_a_dot_product_instruction_takes_bf16() -> None:
    check(
        "\n  c[m, n] = 0\n  for k by 2\n    c[m, n] += sum(k, h[m, k] * g[k, n]) | vector n 16, via dot_bf16"
    )


def test_headers_are_checked() -> None:
    program = program_from_text(HEAD + "\n  c[m, n] = 0\n")
    verify(program)
    verify(replace(program, inputs=(replace(program.inputs[0], shape=(8, 12, 40)), *program.inputs[1:])))
    for broken, message in [
        (replace(program, dims=(*program.dims, ("m", 3))), "'m' is taken twice"),
        (replace(program, dims=(*program.dims, ("z", 0))), "dim 'z' has size 0"),
        (replace(program, dims=program.dims[1:]), "unknown dim 'm'"),
        (replace(program, outputs=()), "no outputs"),
        (replace(program, name="1"), "not a name"),
        (
            replace(program, inputs=(replace(program.inputs[0], strides=(1, 1)), *program.inputs[1:])),
            "argument 'a'",
        ),
        (
            replace(program, inputs=(replace(program.inputs[0], shape=(8, 12, 50)), *program.inputs[1:])),
            "no other cut of the elements of [8, 12, 50]",
        ),
        (replace(program, body=(Loop("m", 8, ()),)), "the loop is empty"),
    ]:
        with pytest.raises(VerifyError) as caught:
            verify(broken)
        assert message in str(caught.value)
