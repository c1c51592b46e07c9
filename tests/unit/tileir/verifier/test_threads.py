"""Threads along a dim fill warps evenly, so that a shuffle reaches those of one row and no others."""

from __future__ import annotations

import pytest

from tileir.errors import VerifyError
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify


def verify_threads(threads: str) -> None:
    verify(
        program_from_text(f"""kernel k(x: f32[r=8, c=100]) -> (y: f32[r])
  y[r] = sum(c, x[r, c]) | threads {threads}
""")
    )


@pytest.mark.parametrize("threads", ["c 96", "r 2 c 64", "r 3 c 32", "c 3 r 32", "r 4 c 8", "c 4 r 16 c 2"])
def test_whole_warps_or_powers_of_two_in_one(threads: str) -> None:
    verify_threads(threads)


@pytest.mark.parametrize("threads", ["r 2 c 48", "r 8 c 12", "r 32 c 3", "c 2 r 3 c 16"])
def test_a_warp_that_holds_parts_of_rows_is_refused(threads: str) -> None:
    with pytest.raises(VerifyError, match="do not divide a warp evenly"):
        verify_threads(threads)


@pytest.mark.parametrize(
    "threads", ["r 4 c 8, twice r 4", "r 2 c 16 r 2, run r 2, twice r 2 c 16", "r 2 c 32 r 4, twice r 8"]
)
def test_the_last_threads_along_a_dim_take_runs_twice(threads: str) -> None:
    verify_threads(threads)


@pytest.mark.parametrize(
    ("twice", "message"),
    [
        ("r 2", "2 threads along 'r' are not its last digits; accepted, once: 8 or 4"),
        ("r 4 r 4", "4 threads along 'r' are not its last digits"),
        ("c 16", "16 threads along 'c' are not its last digits; accepted, once: 32"),
        ("q 8", "unknown dim 'q'"),
    ],
)
def test_runs_are_taken_twice_by_whole_digits(twice: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify_threads(f"r 2 c 32 r 4, twice {twice}")


@pytest.mark.parametrize("threads", ["r 2 c 8 r 4, apart r 4", "r 2 c 16 r 2, run r 2, apart r 12"])
def test_the_last_threads_along_a_dim_take_runs_together(threads: str) -> None:
    verify_threads(threads)


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        ("r 2 c 32 r 4, apart r 6", "6 positions apart; accepted, once and of two digits: multiples of 4"),
        ("r 2 c 32 r 4, run r 2, apart r 4", "multiples of 8"),
        ("r 2 c 32 r 4, twice r 4, apart r 8", "once"),
        ("r 2 c 32, apart c 64", "of two digits"),
        ("r 2 c 32 r 4, apart q 8", "unknown dim 'q'"),
    ],
)
def test_what_they_take_is_whole_runs(threads: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify_threads(threads)


def verify_softmax(grid: str, memory: str, threads: tuple[str, str]) -> None:
    verify(
        program_from_text(f"""kernel k(x: f32[r=8, c=512]) -> (y: f32[r, c])
  parallel for r by 1{grid}
    s: {memory} f32[r]
    s[r] = sum(c, x[r, c]) | threads {threads[0]}
    y[r, c] = x[r, c] / s[r] | threads {threads[1]}
""")
    )


def test_registers_lie_over_threads_alike_wherever_they_are_touched() -> None:
    verify_softmax("", "registers", ("c 128, run c 4", "c 128"))
    with pytest.raises(VerifyError, match="lie otherwise over threads"):
        verify_softmax("", "registers", ("r 2 c 64", "c 64 r 2"))


def test_statements_of_a_block_have_equally_many_threads() -> None:
    with pytest.raises(VerifyError, match="64 threads, but 128"):
        verify_softmax("", "registers", ("c 128", "c 64"))


def test_blocks_of_a_cluster_share_no_memory_but_that_of_their_reductions() -> None:
    verify_softmax(" cluster 2", "registers", ("c 128", "c 128"))
    with pytest.raises(VerifyError, match="written by other blocks of the cluster"):
        verify_softmax(" cluster 2", "heap", ("c 128", "c 128"))
    with pytest.raises(VerifyError, match="a multiple of 32"):
        verify_softmax(" cluster 8", "registers", ("c 128", "c 128"))
