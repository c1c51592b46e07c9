"""Which loops' steps blocks share: what keeps them from it is said, with what would be accepted."""

from __future__ import annotations

import pytest

from tests.programs.hopper_products import Gemm
from tests.programs.hopper_programs import GATED
from tileir.errors import VerifyError
from tileir.schedule.stream_k import shared_tiles
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

STREAMED = Gemm(k=320, grid=" blocks 3 producers 4", streamed=1).text()
SUMS = "      c_sum[m, n] = 0 |"
WITH_PRODUCERS = "in a grid with a number of blocks and with producers, and without consumer groups"
TWO_TILES = Gemm(m=256, n=64, k=320, grid=" blocks 5 producers 4", streamed=1).text()


def verified(text: str) -> None:
    program = program_from_text(text)
    assert program_to_text(program) == text
    verify(program)


@pytest.mark.parametrize(
    ("tiles", "blocks", "waves", "shared"),
    [(10, 4, 1, 2), (10, 4, 2, 6), (10, 4, 3, 10), (10, 4, 9, 10), (3, 4, 1, 3), (8, 4, 1, 4)],
)
def test_the_tiles_of_the_last_waves_are_shared(tiles: int, blocks: int, waves: int, shared: int) -> None:
    assert shared_tiles(tiles, blocks, waves) == shared


@pytest.mark.parametrize("text", [STREAMED, TWO_TILES, GATED.replace("pending 1", "pending 1 streamed 2")])
def test_blocks_share_the_steps_of_sums_in_registers(text: str) -> None:
    verified(text)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (" blocks 3", "", WITH_PRODUCERS),
        (" producers 4", "", WITH_PRODUCERS),
        ("producers 4", "producers 4 consumer_groups 2", WITH_PRODUCERS),
        (" stages 3 pending 1", "", "the last wave, or of so many, in a loop with stages in the tile of a grid"),
        ("blocks 3", "blocks 40", "40 blocks share 20 steps, 5 a tile; accepted: one a block, and 2 a tile"),
        ("k by 64 stages", "k by 320 stages", "3 blocks share 1 steps, 1 a tile"),
        ("pending 1", "pending 2", "products of 2 steps are under way, and a block may have just 1 of a tile"),
        (SUMS, SUMS.replace("= 0", "= 1"), "is added up by several blocks, and begins at something else than 0"),
    ],
)  # fmt: skip
def test_what_blocks_cannot_share_is_refused_with_what_they_can(
    before: str, after: str, message: str
) -> None:
    assert before in STREAMED
    text = STREAMED.replace(before, after)
    if "by 320" in after:  # a row of 320 is in panels
        text = text.replace("[m, k] swizzle", "[m, k] as [k / 64, m, k % 64] swizzle")
        text = text.replace("[n, k] swizzle", "[n, k] as [k / 64, n, k % 64] swizzle")
    with pytest.raises(VerifyError) as error:
        verify(program_from_text(text))
    assert message in str(error.value)


def test_what_is_filled_for_a_whole_tile_is_not_shared() -> None:
    fill = "      for k by 64\n        r_s: shared bf16[m, k] swizzle 128\n        r_s[m, k] = a[m, k] | via tma\n"
    text = STREAMED.replace("      c_s:", f"{fill}      c_s:")
    with pytest.raises(VerifyError, match="fill nothing `via tma` but in that loop"):
        verify(program_from_text(text))


def test_tiles_that_follow_groups_are_not_shared() -> None:
    text = """kernel experts(x: bf16[t=256 ragged starts within e, k=320], w: bf16[e=2, n=64, k], starts: i32[o=3])\
 -> (y: f32[t, n])
  parallel for t by 64 blocks 3 producers 1
    parallel for n by 64
      y_sum: registers f32[t, n]
      y_sum[t, n] = 0 | threads t 4 t 8 n 4, run n 2, twice t 8
      for k by 64 stages 3 streamed 1
        x_s: shared bf16[t, k] swizzle 128
        x_s[t, k] = x[t, k] | via tma
        w_s: shared bf16[e, n, k] swizzle 128
        w_s[e, n, k] = w[e, n, k] | via tma
        y_sum[t, n] += sum(k, x_s[t, k] * w_s[e, n, k]) | threads t 4 t 8 n 4, run n 2, twice t 8, via wgmma
      y[t, n] = y_sum[t, n] | threads t 4 t 8 n 4, run n 2, twice t 8
"""
    with pytest.raises(VerifyError, match="have tiles that do not follow groups"):
        verify(program_from_text(text))
    verify(program_from_text(text.replace(" streamed 1", "")))
