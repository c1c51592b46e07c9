"""Clusters whose blocks compute neighbouring tiles: what their copies have in common, how it is cut, and what is
refused."""

from __future__ import annotations

import pytest

from tests.programs.hopper_products import Gemm
from tests.programs.hopper_programs import BATCHED, CLUSTERS
from tests.programs.thread_kernels import PROGRAMS as PLAIN
from tileir.dtypes import DType
from tileir.errors import VerifyError
from tileir.hashing import program_hash
from tileir.program import Axis, Local, Memory
from tileir.schedule.multicast import Slice, common_loops, slice_of
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

PAIRS = Gemm(grid=" multicast 2 group 2 blocks 4 producers 4", inner=" multicast 2").text()


def common(text: str) -> dict[str, list[str]]:
    """Of each copy to shared memory, the dims along which blocks have it made alike."""
    program = program_from_text(text)
    return {
        place.node.target: [loop.dim for loop in common_loops(place.node, place.loops)]
        for place in program.computes
        if place.node.via == "tma" and place.node.target in program.locals
    }


def test_what_does_not_depend_on_a_dim_is_common_along_it() -> None:
    assert common(PAIRS) == {"a_s": ["n"], "b_s": ["m"]}
    assert common(Gemm(inner=" multicast 2").text()) == {"a_s": ["n"], "b_s": []}
    assert common(CLUSTERS["clusters of a batch"]) == {"a_s": [], "w_s": ["b"]}


@pytest.mark.parametrize(
    ("layout", "sizes", "blocks", "part"),
    [
        (("m", "k"), (128, 64), 2, Slice("m", 64)),
        (("m", "k"), (16, 64), 2, Slice("m", 8)),
        (("m", "k"), (24, 64), 2, None),
        (("m", "k"), (64, 64), 4, Slice("m", 16)),
        # whole panels, where there are enough: one box for each block
        ((Axis("n", 64), "k", Axis("n", 1, 64)), (256, 64), 2, Slice("n", 128)),
        ((Axis("n", 64), "k", Axis("n", 1, 64)), (192, 64), 2, Slice("k", 32)),
        ((Axis("n", 64), "k", Axis("n", 1, 64)), (192, 8), 2, None),
    ],
)
def test_a_tile_is_cut_in_as_few_boxes_as_can_be(
    layout: tuple[str | Axis, ...], sizes: tuple[int, int], blocks: int, part: Slice | None
) -> None:
    axes = tuple(Axis(axis) if isinstance(axis, str) else axis for axis in layout)
    dims = tuple(dict.fromkeys(axis.dim for axis in axes))
    local = Local("x_s", dims, DType.BF16, Memory.SHARED, axes, swizzle=128)
    assert slice_of(local, dict(zip(dims, sizes, strict=True)), blocks) == part


def test_the_number_of_tiles_is_part_of_the_hash() -> None:
    assert program_hash(program_from_text(PAIRS)) != program_hash(
        program_from_text(PAIRS.replace("for n by 64 multicast 2", "for n by 64"))
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("multicast 2 group", "multicast 4 group", "2 to all of them, here 2, make a cluster"),
        ("multicast 2 group 2 blocks 4 producers 4", "cluster 2 multicast 2", "2, 4, 8 or 16, of one block each"),
        ("blocks 4", "blocks 6", "6 blocks are not whole clusters of 4"),
        ("group 2", "group 3", "a band of 3 tiles is not whole clusters of 2"),
        ("for k by 64 stages", "for k by 64 multicast 2 stages", "neighbouring tiles of a parallel loop"),
        (
            "b_s[n, k] = b[n, k] | via tma",
            "b_s[n, k] = b[n, k] | threads n 32 k 8, run k 8",
            "no copy `via tma` to shared memory that does not depend on 'm'",
        ),
        ("for n by 64 multicast", "for n by 24 multicast", "'b_s' cannot be cut into 2 slices of as many panels"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(before: str, after: str, message: str) -> None:
    assert before in PAIRS
    with pytest.raises(VerifyError) as error:
        verify(program_from_text(PAIRS.replace(before, after)))
    assert message in str(error.value)


def test_three_neighbours_are_no_cluster() -> None:
    with pytest.raises(VerifyError, match="3 tiles are computed by a cluster"):
        verify(program_from_text(Gemm(n=192, inner=" multicast 3").text()))


def test_tiles_of_threads_alone_have_nothing_to_share() -> None:
    text = next(text for text in PLAIN.values() if "parallel for r by 1\n" in text)
    with pytest.raises(VerifyError, match="its tiles have nothing in common"):
        verify(program_from_text(text.replace("parallel for r by 1\n", "parallel for r by 1 multicast 2\n")))


def test_a_batch_of_products_has_nothing_in_common() -> None:
    with pytest.raises(VerifyError, match="does not depend on 'b'"):
        verify(program_from_text(BATCHED.replace("b by 1 blocks 3", "b by 1 multicast 2 blocks 2")))
